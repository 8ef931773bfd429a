"""Spellings of models, devices and precisions in public tables, resolved to the catalogue."""

from __future__ import annotations

import re
from functools import lru_cache

from twinlens.spec.model.reference import list_models, load_model
from twinlens.spec.model.shape import DecoderShape

SAME_SHAPE = {
    "llama3-8b": "llama-3.1-8b",
    "llama3-70b": "llama-3.1-70b",
    "llama33-70b": "llama-3.1-70b",
    "llama3-405b": "llama-3.1-405b",
    "qwen2-7b": "qwen2.5-7b",
    "qwen25-72b": "qwen2-72b",
    "deepseek-r1": "deepseek-v3",
    "deepseek-v31": "deepseek-v3",
    "deepseekv3": "deepseek-v3",
    "deepseekr1": "deepseek-v3",
    "deepseek-r1-0528": "deepseek-v3",
    "deepseek-v3-0324": "deepseek-v3",
    "kimi-k25": "kimi-k2",
    "kimi-k26": "kimi-k2",
    "minimax-m25": "minimax-m2",
    "minimax-m21": "minimax-m2",
    "glm-51": "glm-5",
    "mistral-small-32-24b": "mistral-small-24b",
    "mistral-small-31-24b": "mistral-small-24b",
    "codellama-34b": "codellama-34b",
    "turing-530b": "megatron-530b",
    "gpt3-175b": "gpt3-175b",
    "megatron-175b": "gpt3-175b",
    "gpt-175b": "gpt3-175b",
    "llama31-8b-edge": "llama-3.1-8b",
}
"""Checkpoints whose shape is that of another in the catalogue. Keys as `plain` spells them."""

_DROPPED = re.compile(
    r"[-_ ]*(instruct|chat|base|hf|it|lora|nvfp4|mxfp4|fp8|fp4|bf16|awq|gptq|99\.9|99|v0\.[1-3]"
    r"|\d{2,3}e|17b|2[45]\d{2}|edge)(?=$|[-_ ])"
)


def plain(name: str) -> str:
    """A model name in lower case without owner, dots, format and kind of tuning."""
    text = re.sub(r"\(.*?\)", "", name.strip().lower()).strip().rsplit("/", 1)[-1]
    text = re.sub(r"^meta[-_ ]?", "", text)
    for _ in range(4):
        text = _DROPPED.sub("", text)
    text = re.sub(r"[\s_]+", "-", text.strip()).replace(".", "")
    text = re.sub(r"^(llama|qwen|gemma|glm|mpt|gpt)-(?=\d)", r"\1", text)
    text = re.sub(r"^(llama2|llama3|llama31|llama33|llama32|llama4)(?=\d+b)", r"\1-", text)
    return re.sub(r"-+", "-", text).strip("-")


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text)


@lru_cache(maxsize=1)
def _known() -> dict[str, str]:
    table = {_key(plain(name)): name for name in list_models()}
    table |= {_key(alias): name for alias, name in SAME_SHAPE.items()}
    table |= {_key(plain(alias)): name for alias, name in SAME_SHAPE.items()}
    return table


@lru_cache(maxsize=4096)
def model_name(name: str) -> str | None:
    """The name in the catalogue of the model that a table calls so; None where no shape is known for sure."""
    key = _key(plain(name))
    found = _known().get(key)
    if found is None:
        found = _known().get(re.sub(r"a\d+b$", "", key)) or next(
            (value for known, value in _known().items() if re.fullmatch(re.escape(known) + r"a\d+b", key)), None
        )
    return found


@lru_cache(maxsize=256)
def shape_of(name: str) -> DecoderShape | None:
    """The decoder that a table calls so; None for an unknown model and for one that is no decoder."""
    known = model_name(name)
    shape = load_model(known).shape if known else None
    return shape if isinstance(shape, DecoderShape) else None


def precision_name(text: str) -> str | None:
    """The precision that a table calls so; None where it cannot be told."""
    low = text.strip().lower()
    if re.fullmatch(r"q\d(_k_[ms]|_[01]|_k)?", low):
        return low if low in ("q4_0", "q4_k_m", "q5_k_m", "q6_k", "q8_0") else None
    for pattern, name in _PRECISIONS:
        if re.search(pattern, low):
            return name
    return None


_PRECISIONS = (
    (r"nvfp4|^fp4|w4a4", "nvfp4"),
    (r"mxfp4", "mxfp4"),
    (r"mxfp8|fp8-mx|fp8_mx", "mxfp8"),
    (r"fp8", "fp8"),
    (r"int8|w8a8", "int8"),
    (r"int4|uint4|awq|gptq|w4a16", "int4"),
    (r"bf16", "bf16"),
    (r"fp16|f16|half", "fp16"),
    (r"fp32|float32", "fp32"),
    (r"unspecified|^$|default", "bf16"),
)
