"""Checks of one answer: how many results it must hold, their length, and that every number is finite. Pure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def embedding_fault(said: dict[str, Any], texts: int, dimension: int | None) -> str | None:
    """Why these are not `texts` vectors of `dimension` finite numbers (None: of any one length), not all zero."""
    entries = _entries(said, "data")
    if len(entries) != texts:
        return f"{len(entries)} vectors for {texts} texts"
    vectors = [_numbers(entry.get("embedding")) for entry in entries]
    if any(vector is None for vector in vectors):
        return "a vector holds something else than numbers"
    known = [vector for vector in vectors if vector is not None]
    wanted = dimension or known[0].size
    if wrong := next((vector.size for vector in known if vector.size != wanted), None):
        return f"a vector of {wrong} numbers, not {wanted}"
    if not all(np.isfinite(vector).all() for vector in known):
        return "a vector holds a number that is not finite"
    if not all(vector.any() for vector in known):
        return "a vector is empty or all zero"
    return _order_fault([entry.get("index", i) for i, entry in enumerate(entries)], texts)


def dimension_of(said: dict[str, Any]) -> int | None:
    """Numbers in the first vector; None where there is none."""
    entries = _entries(said, "data")
    first = _numbers(entries[0].get("embedding")) if entries else None
    return None if first is None else int(first.size)


def rerank_fault(said: dict[str, Any], documents: int) -> str | None:
    """Why this is not one finite score for each of `documents`: `results` of /rerank, or `data` of /score."""
    name, score = ("results", "relevance_score") if "results" in said else ("data", "score")
    entries = _entries(said, name)
    if len(entries) != documents:
        return f"{len(entries)} scores for {documents} documents"
    if not all(_is_finite(entry.get(score)) for entry in entries):
        return f"a {score} is no finite number"
    return _order_fault([entry.get("index", i) for i, entry in enumerate(entries)], documents)


def tensor_fault(said: dict[str, Any], images: int, width: int | None) -> str | None:
    """Why the first output is not a row of finite numbers for each of `images`; `width`: numbers in a row, if known."""
    outputs = _entries(said, "outputs")
    if not outputs:
        return "the answer holds no output"
    data, shape = _numbers(outputs[0].get("data")), outputs[0].get("shape")
    if data is None or not data.size or not np.isfinite(data).all():
        return "the output holds something else than finite numbers"
    if not isinstance(shape, list) or not all(isinstance(n, int) and n >= 0 for n in shape):
        return "the output says no shape"
    if math.prod(shape) != data.size:
        return f"the output says the shape {shape} and holds {data.size} numbers"
    if not shape or shape[0] != images:
        return f"an output of shape {shape} for {images} images"
    if width is not None and data.size != images * width:
        return f"{data.size // images} numbers for an image, not {width}"
    return None


def _entries(said: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = said.get(name)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _numbers(value: Any) -> np.ndarray | None:
    """A list as a flat array of numbers; None where it holds anything else."""
    if not isinstance(value, list):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        return None
    return array.astype(np.float64).ravel() if array.dtype.kind in "iuf" else None


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _order_fault(places: list[Any], count: int) -> str | None:
    numbers = [place for place in places if isinstance(place, int) and not isinstance(place, bool)]
    return None if sorted(numbers) == list(range(count)) else "results do not name each item once"
