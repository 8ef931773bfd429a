"""The header of a GGUF file: facts of the model by key, and type and shape of each tensor.

The format: docs/gguf.md of ggml. Bytes per block: ggml-common.h of llama.cpp.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from twinlens.errors import BadInput
from twinlens.spec.model.header.stored import AS_STORED, MOST_ELEMENTS, MOST_TENSORS, UNREADABLE, StoredModel
from twinlens.spec.model.layer import Experts
from twinlens.spec.model.shape import DecoderShape

_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66),
    17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54),
    35: (256, 66), 39: (32, 17),
}  # fmt: skip
"""Elements and bytes of a block of each tensor type."""
_FILE_TYPES = {0: "fp32", 1: "fp16", 2: "q4_0", 7: "q8_0", 15: "q4_k_m", 17: "q5_k_m", 18: "q6_k", 32: "bf16"}
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_TEXT, _MOST_KEYS, _MOST_ENTRIES = 16 * 2**20, 100_000, 4_000_000
_KNOWN = {"llama": False, "qwen2": False, "qwen3": True, "qwen3moe": True}
"""Architectures whose layers are read here, and whether queries and keys are normed."""


def read_gguf(path: Path) -> StoredModel:
    """What the header says. Raises BadInput (TL233) for what is no GGUF, is cut off, or is one part of several."""
    try:
        with path.open("rb") as file:
            facts, tensors = _Reader(file, path).header()
    except OSError as wrong:
        raise BadInput(f"{path.name} cannot be read ({wrong.strerror})", code=UNREADABLE) from None
    if isinstance(parts := facts.get("split.count"), int) and parts > 1:
        raise BadInput(f"{path.name} is one of {parts} parts; join them with llama-gguf-split --merge", code=UNREADABLE)
    if not tensors:
        raise BadInput(f"{path.name} holds no tensor", code=UNREADABLE)
    elements = sum(many for many, _, _ in tensors.values())
    size = sum(held for _, held, _ in tensors.values())
    form = _FILE_TYPES.get(facts.get("general.file_type", -1), AS_STORED)
    return StoredModel(elements, size, form, _shape(facts, tensors), f"header of {path.name}")


Tensors = Mapping[str, tuple[int, int, tuple[int, ...]]]
"""Elements, bytes and dimensions of each tensor by its name."""


def _shape(facts: Mapping[str, Any], tensors: Tensors) -> DecoderShape | None:
    """The layers, where the architecture is one that is read here and every number is there."""
    kind = facts.get("general.architecture")
    if not isinstance(kind, str) or kind not in _KNOWN or "token_embd.weight" not in tensors:
        return None
    own = {key.removeprefix(f"{kind}."): value for key, value in facts.items() if key.startswith(f"{kind}.")}
    try:
        hidden, heads = own["embedding_length"], own["attention.head_count"]
        experts = None
        if own.get("expert_count"):
            wide = own["expert_feed_forward_length" if "expert_feed_forward_length" in own else "feed_forward_length"]
            experts = Experts(count=own["expert_count"], per_token=own["expert_used_count"], intermediate=wide)
        return DecoderShape(
            layers=own["block_count"],
            hidden=hidden,
            heads=heads,
            kv_heads=own.get("attention.head_count_kv", heads),
            head_dim=own.get("attention.key_length", hidden // heads),
            intermediate=own["feed_forward_length"],
            vocab=tensors["token_embd.weight"][2][-1],
            tied_embeddings="output.weight" not in tensors,
            max_context=own["context_length"],
            attention_bias="qkv" if "blk.0.attn_q.bias" in tensors else "none",
            qk_norm=_KNOWN[kind],
            experts=experts,
        )
    except (KeyError, TypeError, ValidationError, ZeroDivisionError, IndexError):
        return None


class _Reader:
    """Reads little-endian values, never beyond the end of the file and never more than a limit."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._name, self._left = file, path.name, path.stat().st_size

    def header(self) -> tuple[dict[str, Any], dict[str, tuple[int, int, tuple[int, ...]]]]:
        if self._bytes(4) != b"GGUF":
            raise self._wrong("is no GGUF file")
        version = self._scalar("I")
        if version not in (2, 3):
            raise self._wrong(f"is GGUF of version {version}; 2 and 3 are read")
        tensors, keys = self._scalar("Q"), self._scalar("Q")
        if tensors > MOST_TENSORS or keys > _MOST_KEYS:
            raise self._wrong(f"tells of {tensors:,} tensors and {keys:,} keys, more than any model has")
        facts = {self._text(1000): self._value(self._scalar("I")) for _ in range(keys)}
        found = dict(self._tensor() for _ in range(tensors))
        if sum(size for _, size, _ in found.values()) > self._left:
            raise self._wrong("is shorter than its tensors; is it cut off?")
        return facts, found

    def _tensor(self) -> tuple[str, tuple[int, int, tuple[int, ...]]]:
        name, many = self._text(1000), self._scalar("I")
        if many > 8:
            raise self._wrong(f"has a tensor of {many:,} dimensions")
        shape = tuple(self._scalar("Q") for _ in range(many))
        kind, _ = self._scalar("I"), self._scalar("Q")
        elements = math.prod(shape)
        if kind not in _BLOCKS:
            raise self._wrong(f"has a tensor of the unknown type {kind}")
        if elements > MOST_ELEMENTS:
            raise self._wrong("has a tensor larger than any")
        block, size = _BLOCKS[kind]
        return name, (elements, -(-elements // block) * size, shape)

    def _value(self, kind: int, depth: int = 0) -> Any:
        """A scalar or a short text; of arrays and long texts only that they are there."""
        if kind in _SCALARS:
            return self._scalar(_SCALARS[kind])
        if kind == _STRING:
            return self._text(_MOST_TEXT)
        if kind != _ARRAY or depth > 2:
            raise self._wrong(f"has a value of the unknown type {kind}")
        inner, many = self._scalar("I"), self._scalar("Q")
        if many > _MOST_ENTRIES:
            raise self._wrong(f"has a list of {many:,} entries")
        if inner in _SCALARS:
            self._bytes(many * struct.calcsize(f"<{_SCALARS[inner]}"))
        else:
            for _ in range(many):
                self._value(inner, depth + 1)
        return None

    def _text(self, most: int) -> str:
        length = self._scalar("Q")
        if length > most:
            raise self._wrong(f"has a text of {length:,} bytes")
        return self._bytes(length).decode("utf-8", "replace")

    def _scalar(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._bytes(struct.calcsize(f"<{form}")))[0]

    def _bytes(self, many: int) -> bytes:
        if many > self._left:
            raise self._wrong("ends within its header; is it cut off?")
        self._left -= many
        return self._file.read(many)

    def _wrong(self, what: str) -> BadInput:
        return BadInput(f"{self._name} {what}", code=UNREADABLE)
