"""Read a Hugging Face config into a shape. Data only: no code from a model folder is ever run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twinlens.errors import BadInput, nearest
from twinlens.spec.frozen import described
from twinlens.spec.model.layer import MOST_LAYERS
from twinlens.spec.model.reader import dense, experts, hybrid, tower
from twinlens.spec.model.shape import ModelShape

Config = Mapping[str, Any]


def shape_from_config(config: Config) -> ModelShape:
    """The shape that a Hugging Face config describes; of a model that also sees or hears, its text part.

    `auto_map` is ignored: known types need no code. Raises BadInput (TL202) when the model type is unknown or a number
    it needs is missing or impossible.
    """
    kind, read = _reader(config)
    layers = read.get("num_hidden_layers")
    if isinstance(layers, int) and layers > MOST_LAYERS:  # readers walk over layers
        raise BadInput(f"the {kind} config describes no model: layers: {layers} is above {MOST_LAYERS}", code="TL202")
    with described(f"the {kind} config", "model"):
        return READERS[kind](read)


def knows(config: Config) -> bool:
    """Whether `shape_from_config` has a reader for this config, or for its text part."""
    return _kind(config) in READERS or _kind(text_part(config)) in READERS


def text_part(config: Config) -> Config:
    """The text part of a config that has several; empty where it has none."""
    inner = config.get("text_config")
    if not isinstance(inner, Mapping):
        return {}
    tied = {"tie_word_embeddings": config["tie_word_embeddings"]} if "tie_word_embeddings" in config else {}
    return {"model_type": config.get("model_type"), **tied, **inner}


def _kind(config: Config) -> str:
    kind = config.get("model_type")
    return kind if isinstance(kind, str) else ""


def _reader(config: Config) -> tuple[str, Config]:
    """The model type and the part of the config to read. Raises BadInput (TL202) for an unknown type."""
    for part in (text_part(config), config):
        if _kind(part) in READERS:
            return _kind(part), part
    for part in (text_part(config), config):
        if why := _UNCOUNTED.get(_kind(part)):
            raise BadInput(f"models of type {_kind(part)!r} are not counted: {why}", code="TL202")
    kind = config.get("model_type")
    remote = "; it asks for its own code, which is never run" if "auto_map" in config else ""
    near = nearest(str(kind), READERS)
    guess = f"; {near}" if near.startswith("did") else ""
    raise BadInput(
        f"unknown model_type {kind!r}{remote}{guess}; theory reads "
        f'{", ".join(sorted(READERS))}; the embedded engine (executor.kind = "torch") and a launched server ("vllm") '
        "take any type that they know themselves",
        code="TL202",
    )


_UNCOUNTED = {
    **dict.fromkeys(
        ("minimax_m3_vl", "minimax_m3_vl_text"),
        "its indexer chooses blocks of keys beside grouped attention, so a token reads and multiplies only some of "
        "those that it keeps, and no formula here says how many",
    ),
    "deepseek_v4": "its layers keep keys that are compressed 4 or 128 times beside a window, and mix several residual "
    "streams; no formula here counts their cache, their FLOP or the weights of the mixing",
}
"""Types that are refused with a reason: what no formula here counts."""

READERS: dict[str, Callable[[Config], ModelShape]] = {
    **dense.READERS, **experts.READERS, **hybrid.READERS, **tower.READERS
}  # fmt: skip
