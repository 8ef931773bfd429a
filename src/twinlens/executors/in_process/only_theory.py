"""Refusals of models that theory reads and no engine of this process runs."""

from __future__ import annotations

from twinlens.errors import BadInput
from twinlens.spec.model.any_model import Model
from twinlens.spec.model.shape import DecoderShape

_RECURRENT = frozenset(
    (
        "falcon_h1",
        "falcon_mamba",
        "lfm2",
        "lfm2_moe",
        "mamba",
        "mamba2",
        "recurrent_gemma",
        "rwkv",
        "xlstm",
        "zamba",
        "zamba2",
    )
)
_LAYERS = frozenset(("conv", "linear_attention", "mamba", "recurrent"))
"""Types that theory does not read and that always keep a state, and names of such layers in the configs of others."""
_ELSEWHERE = 'serve it instead (executor.kind = "vllm"), or train it in a loop of your own (tl.watch)'


def refuse_unbuilt(ref: Model) -> None:
    """Raises BadInput (TL202) for a model that takes images beside text, or that theory knows to be recurrent."""
    if "text_config" in ref.config or "vision_config" in ref.config:
        raise BadInput(
            f"{ref.name} takes images beside text, and the embedded engine text alone; {_ELSEWHERE}", code="TL202"
        )
    if isinstance(ref.shape, DecoderShape) and ref.shape.recurrent:
        raise recurrent(ref.name)


def refuse_unanswered(ref: Model) -> None:
    """Raises BadInput (TL202) for a model whose answers no engine of this process gives, as far as its config says so;
    the rest is seen when its cache is made. It can be trained."""
    named = ref.config.get("layer_types") or ref.config.get("layers_block_type") or ()
    layers = {name for name in named if isinstance(name, str)} if isinstance(named, list) else set[str]()
    if ref.config.get("model_type") in _RECURRENT or layers & _LAYERS:
        raise recurrent(ref.name)


def recurrent(name: str) -> BadInput:
    """The refusal of a model that keeps a state which no position of the cache gives back."""
    return BadInput(
        f"{name} has recurrent layers, whose state the embedded engine cannot move; {_ELSEWHERE}", code="TL202"
    )
