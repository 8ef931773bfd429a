"""Headers of weight files: tensors, formats and sizes of GGUF and safetensors, read without reading a weight."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from twinlens.errors import BadInput
from twinlens.spec.model.layer import Experts
from twinlens.spec.model.shape import DecoderShape
from twinlens.system.document import json_of

# The header of a safetensors file: a length, and JSON with type, shape and place of each tensor.

_MOST_HEADER = 100_000_000
"""Bytes, as the format itself has it."""
_BYTES = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
    "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
_FORMATS = {"F32": "fp32", "F16": "fp16", "BF16": "bf16", "F8_E4M3": "fp8", "F8_E5M2": "fp8"}


def read_safetensors(files: Iterable[Path]) -> StoredModel:
    """What the headers of one model's files come to. Raises BadInput (TL233) for one that is none, or cut off."""
    elements: Counter[str] = Counter()
    size, count = 0, 0
    names = []
    for path in files:
        names.append(path.name)
        for kind, many in _tensors(path):
            elements[kind] += many
            size += many * _BYTES[kind]
            count += 1
            if count > MOST_TENSORS or size > MOST_ELEMENTS:
                raise BadInput(f"{path.name} tells of more tensors than any model has", code=UNREADABLE)
    if not elements:
        raise BadInput(f"{', '.join(names) or 'the folder'} holds no tensor", code=UNREADABLE)
    packed = any(kind[0] in "IU" and many > 1_000_000 for kind, many in elements.items())
    usual = max(elements, key=lambda kind: elements[kind] * _BYTES[kind])
    whole = sum(elements.values())
    plain = elements[usual] > 0.98 * whole
    form = _FORMATS.get(usual, AS_STORED) if plain else AS_STORED
    source = f"header of {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    return StoredModel(None if packed else whole, size, form, None, source)


def format_of_tensor(files: Iterable[Path], name: str) -> str | None:
    """The format of one tensor, as "bf16"; None where no file has it or it is of whole numbers. Raises as
    `read_safetensors`."""
    for path in files:
        entry = _header(path)[0].get(name)
        if entry is not None:
            return _FORMATS.get(_entry(path, name, entry)[0])
    return None


def types_and_shapes(files: Iterable[Path]) -> dict[str, tuple[str, list[int]]]:
    """The type, as "F8_E4M3", and the shape of each tensor by its name. Raises as `read_safetensors`."""
    return {
        name: _entry(path, name, entry)[:2]
        for path in files
        for name, entry in _header(path)[0].items()
        if name != "__metadata__"
    }


def _tensors(path: Path) -> list[tuple[str, int]]:
    """Type and elements of each tensor of one file."""
    header, length, whole = _header(path)
    found = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        kind, shape, place = _entry(path, name, entry)
        many = math.prod(shape)
        if many > MOST_ELEMENTS or place[1] - place[0] != many * _BYTES[kind] or 8 + length + place[1] > whole:
            raise BadInput(f"{path.name}: tensor {name[:60]!r} does not fill its place (cut off?)", code=UNREADABLE)
        found.append((kind, many))
    return found


def _header(path: Path) -> tuple[dict[str, Any], int, int]:
    try:
        whole = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(_MOST_HEADER, whole - 8):
                raise BadInput(
                    f"{path.name} is no safetensors file: its header would be {length:,} bytes", code=UNREADABLE
                )
            header = json_of(file.read(length).decode("utf-8"))
    except OSError as wrong:
        raise BadInput(f"{path.name} cannot be read ({wrong.strerror})", code=UNREADABLE) from None
    except ValueError:
        raise BadInput(f"{path.name} is no safetensors file: its header is no JSON", code=UNREADABLE) from None
    if not isinstance(header, dict):
        raise BadInput(f"{path.name} is no safetensors file: its header is no table", code=UNREADABLE)
    return header, length, whole


def _entry(path: Path, name: str, entry: Any) -> tuple[str, list[int], list[int]]:
    found: dict[str, Any] = entry if isinstance(entry, dict) else {}
    kind, shape, place = found.get("dtype"), _sizes(found.get("shape")), _sizes(found.get("data_offsets"))
    if shape is None or place is None or len(place) != 2 or len(shape) > 16:
        raise BadInput(f"{path.name}: tensor {name[:60]!r} has no shape or no place", code=UNREADABLE)
    if not isinstance(kind, str) or kind not in _BYTES:
        raise BadInput(f"{path.name}: tensor {name[:60]!r} is of the unknown type {str(kind)[:20]!r}", code=UNREADABLE)
    return kind, shape, place


def _sizes(values: Any) -> list[int] | None:
    """Whole numbers that are sizes; None for anything else."""
    whole = isinstance(values, list) and all(type(each) is int and 0 <= each <= MOST_ELEMENTS for each in values)
    return values if whole else None


# Weights as they lie in files: parameters, bytes, format, and the layers where a header tells them.

AS_STORED = "as-stored"
"""The format of a file whose tensors are in several formats, or in one that has no name here."""
UNREADABLE = "TL233"
MOST_TENSORS = 1_000_000
MOST_ELEMENTS = 2**50


@dataclass(frozen=True, slots=True)
class StoredModel:
    """`parameters` None: packed integers, of which only a config tells how many weights they hold."""

    parameters: int | None
    bytes: int
    format: str
    shape: DecoderShape | None
    source: str


# The header of a GGUF file: facts of the model by key, and type and shape of each tensor.
#
# The format: docs/gguf.md of ggml. Bytes per block: ggml-common.h of llama.cpp.

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
