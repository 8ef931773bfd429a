"""The header of a safetensors file: a length, and JSON with type, shape and place of each tensor."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.spec.model.header.stored import AS_STORED, MOST_ELEMENTS, MOST_TENSORS, UNREADABLE, StoredModel
from twinlens.system.document import json_of

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
