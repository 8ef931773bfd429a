"""The model of a run as far as it is known here: that of a server over HTTP may be any, and theory is then silent."""

from __future__ import annotations

from twinlens.errors import BadInput
from twinlens.executors.registry import capabilities
from twinlens.spec.model.reference import AnyModel, any_model, load_model
from twinlens.spec.study import RunSpec

_ELSEWHERE = "the model is the server's, and nothing of it is here"


def asked_model(spec: RunSpec) -> AnyModel:
    """Raises BadInput (TL201, TL202) for a model that has to be here and is not, or cannot be read."""
    name, can = spec.workload.model, capabilities(spec.executor.kind)
    if can.prompts == "tokens":
        ref = load_model(name)
        return AnyModel(name=ref.name, config=ref.config, shape=ref.shape, folder=ref.folder, source=ref.source)
    try:
        return any_model(name)
    except BadInput:
        if can.runs != "elsewhere":
            raise
        return AnyModel(name=name, config={}, shape=None, source="the spec", why=_ELSEWHERE)
