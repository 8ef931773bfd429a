"""The model of a run as far as it is known here: that of a server over HTTP may be any, and theory is then silent."""

from __future__ import annotations

from twinlens.errors import BadInput
from twinlens.executors.registry import capabilities
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.model.config import knows
from twinlens.spec.study import RunSpec

_ELSEWHERE = "the model is the server's, and nothing of it is here"


def asked_model(spec: RunSpec) -> AnyModel:
    """Raises BadInput (TL201, TL202) for a model that has to be here and is not, or cannot be read."""
    can = capabilities(spec.executor.kind)
    if can.prompts == "tokens" and (not can.takes_any_type or knows(spec.model.config)):
        spec.model.known()  # it needs the sizes
    try:
        return spec.model
    except BadInput:
        if can.runs != "elsewhere":
            raise
        return AnyModel(name=spec.workload.model, config={}, shape=None, source="the spec", why=_ELSEWHERE)
