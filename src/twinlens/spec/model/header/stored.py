"""Weights as they lie in files: parameters, bytes, format, and the layers where a header tells them."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.spec.model.shape import DecoderShape

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
