"""The model on which ranks are compared with one process: the run's own, or a shrunken twin of it. Pure."""

from __future__ import annotations

from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.model.twin import shrunken, weights_of_products
from twinlens.spec.study import RunSpec

_STATE_BYTES = 16
"""Of a parameter in fp32 with its gradient and two moments."""
_MOST_WHOLE_BYTES = 8 * 2**30


def compared_model(spec: RunSpec, stages: int = 1) -> AnyModel:
    """The whole model where one process holds it in 8 GiB, which half a billion parameters take; else the twin."""
    model = spec.model
    if not isinstance(model.shape, DecoderShape):
        return model
    if _STATE_BYTES * weights_of_products(model.shape) <= _MOST_WHOLE_BYTES:
        return model
    return shrunken(model, stages) or model


def with_model(spec: RunSpec, model: AnyModel) -> RunSpec:
    """The spec with another model in the place of the one that its workload names."""
    copied = spec.model_copy()
    copied.__dict__["model"] = model  # which was looked up once, and is kept there
    return copied


def twin_numbers(spec: RunSpec, model: AnyModel) -> dict[str, int]:
    """Layers of the twin and of the run's own model; empty where they are one."""
    few, many = model.shape, spec.model.shape
    if model is spec.model or not isinstance(few, DecoderShape) or not isinstance(many, DecoderShape):
        return {}
    return {"twin_layers": few.layers, "layers": many.layers}
