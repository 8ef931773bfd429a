"""Read a Hugging Face config into a shape. Data only: no code from a model folder is ever run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from twinlens.errors import BadInput, nearest
from twinlens.spec.model.layer import MOST_LAYERS
from twinlens.spec.model.reader import dense, experts, hybrid, tower
from twinlens.spec.model.reader.hybrid import RELATIVES
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
    try:
        return READERS[kind](read)
    except KeyError as missing:
        raise BadInput(f"the {kind} config has no {missing}; add it", code="TL202") from None
    except ValidationError as wrong:
        first = wrong.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its sizes"
        raise BadInput(f"the {kind} config describes no model: {where}: {first['msg']}", code="TL202") from None
    except ZeroDivisionError:
        raise BadInput(
            f"the {kind} config describes no model: a size that divides another is 0", code="TL202"
        ) from None
    except (ValueError, TypeError, AttributeError, OverflowError) as wrong:
        raise BadInput(f"the {kind} config describes no model: {wrong}", code="TL202") from None


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
    "llama": dense.llama,
    "mistral": dense.mistral,
    "mixtral": experts.mixtral,
    "qwen2": dense.qwen2,
    "qwen3": dense.qwen3,
    "deepseek_v2": experts.deepseek,
    "deepseek_v3": experts.deepseek,
    "deepseek_v32": experts.deepseek,
    "kimi_k2": experts.deepseek,
    "glm_moe_dsa": experts.deepseek,
    "minimax_m2": experts.minimax_m2,
    "mpt": dense.mpt,
    "gemma": dense.gemma,
    "gemma2": dense.gemma2,
    "gemma3": dense.gemma3,
    "gemma3_text": dense.gemma3,
    "gemma4": experts.gemma4,
    "gemma4_text": experts.gemma4,
    "glm4_moe": experts.glm4_moe,
    "glm4_moe_lite": experts.deepseek,
    "gpt2": dense.gpt2,
    "gpt_oss": experts.gpt_oss,
    "granite": dense.llama,
    "phi3": dense.phi3,
    "qwen2_moe": experts.qwen2_moe,
    "qwen3_moe": experts.qwen3_moe,
    "qwen3_next": hybrid.qwen3_next,
    "qwen3_5_text": hybrid.qwen3_next,
    "qwen3_5_moe_text": hybrid.qwen3_next,
    "jamba": hybrid.jamba,
    "bamba": hybrid.bamba,
    "nemotron_h": hybrid.nemotron_h,
    "llama4": experts.llama4,
    "llama4_text": experts.llama4,
    "mllama": dense.mllama,
    "mllama_text_model": dense.mllama,
    "qwen2_vl": dense.qwen2,
    "qwen2_vl_text": dense.qwen2,
    "qwen2_5_vl": dense.qwen2,
    "qwen2_5_vl_text": dense.qwen2,
    "qwen3_vl_text": dense.qwen3,
    "qwen3_vl_moe_text": experts.qwen3_moe,
    "vit": tower.vit,
    "resnet": tower.resnet,
    **RELATIVES,
}
