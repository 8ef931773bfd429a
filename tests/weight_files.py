"""Small GGUF and safetensors files, written as the formats say, with zero bytes for weights."""

from __future__ import annotations

import json
import struct
from typing import Any

LLAMA = {
    "general.architecture": "llama", "general.file_type": 15, "llama.block_count": 2, "llama.embedding_length": 256,
    "llama.feed_forward_length": 512, "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
    "llama.context_length": 4096, "tokenizer.ggml.tokens": ["a", "b", "c"],
}  # fmt: skip
TENSORS = {
    "token_embd.weight": (12, (256, 1000)),
    "blk.0.attn_q.weight": (12, (256, 256)),
    "output_norm.weight": (0, (256,)),
}
"""Type and dimensions: 256,000 and 65,536 weights in Q4_K, and 256 in fp32."""
TENSOR_BYTES = 256_000 * 144 // 256 + 65_536 * 144 // 256 + 256 * 4


def _text(word: str) -> bytes:
    return struct.pack("<Q", len(word.encode())) + word.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, list):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    return struct.pack("<II", 4, value)


def gguf(facts: dict[str, Any] = LLAMA, tensors: dict[str, Any] = TENSORS, held: int = TENSOR_BYTES) -> bytes:
    """A whole file."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    head += b"".join(_text(key) + _value(value) for key, value in facts.items())
    for name, (kind, shape) in tensors.items():
        head += _text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", kind, 0)
    return head + bytes(held)


def safetensors(tensors: dict[str, tuple[str, tuple[int, ...], int]]) -> bytes:
    """A whole file of tensors by name: type, shape, bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (kind, shape, size) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)
