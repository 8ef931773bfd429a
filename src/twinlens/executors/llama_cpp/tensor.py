"""Tensors as llama.cpp has them: their names, the order of their rows, its words for formats. No package is needed."""

from __future__ import annotations

import re

import numpy as np

_FLASH = re.compile(r"resolve_fused_ops: Flash Attention (\w+)")
_CACHE = re.compile(r"[KV] \((\w+)\):\s*([\d.]+) MiB")
_FORMATS = {"F32": "fp32", "F16": "fp16", "BF16": "bf16", "Q8_0": "int8"}
_PLAIN = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_IN_BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def renamed(name: str) -> str:
    """A tensor of transformers' Llama, Qwen2 or Qwen3 by its name in GGUF. Raises KeyError for one of no such name."""
    stem, _, kind = name.rpartition(".")
    if stem in _PLAIN:
        return f"{_PLAIN[stem]}.{kind}"
    _, _, number, rest = stem.split(".", 3)
    return f"blk.{number}.{_IN_BLOCK[rest]}.{kind}"


def turned(name: str, values: np.ndarray, heads: int, kv_heads: int) -> np.ndarray:
    """llama.cpp rotates neighbouring pairs of a head, transformers its two halves: rows of queries and keys change
    places."""
    count = heads if "q_proj" in name else kv_heads if "k_proj" in name else 0
    if not count:
        return values
    half = values.shape[0] // count // 2
    return values.reshape(count, 2, half, -1).swapaxes(1, 2).reshape(values.shape)


def format_of(kind: str) -> str:
    """llama.cpp's word for a tensor type in ours; integers by their bits ("Q4_K" is int4, "Q6_K" its own)."""
    return _FORMATS.get(kind) or (f"int{kind[1]}" if kind[1:2] in "48" else kind.lower())


def cache_said(log: str) -> dict[str, int]:
    """Bytes of the KV cache by format, from the lines that llama.cpp prints when it makes a context; empty without."""
    held: dict[str, int] = {}
    for line in log.splitlines():
        for word, size in _CACHE.findall(line) if "size" in line else ():
            held[format_of(word.upper())] = held.get(format_of(word.upper()), 0) + round(float(size) * 2**20)
    return held


def flash_said(log: str) -> str:
    """How llama.cpp decided on flash attention where that was left to it; "" where its log does not say."""
    found = _FLASH.search(log)
    return f"flash attention {found[1]}" if found else ""
