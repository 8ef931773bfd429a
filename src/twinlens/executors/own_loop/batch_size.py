"""Samples and tokens of a batch, read from the shapes of its tensors: of torch, numpy or anything like them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

_TOKENS = ("input_ids", "inputs_embeds", "decoder_input_ids")


def size_of(batch: Any) -> tuple[int, int] | None:
    """(samples, tokens) of one forward pass; tokens 0 where it has none (images), None where nothing is recognised.

    Tokens are positions, padding included. A tensor of whole numbers with two sides is taken for token ids; `input_ids`
    and `inputs_embeds` always are, and of one side for a packed sequence.
    """
    if type(batch) in (tuple, list):  # the arguments of a call: asked first, as it is done for every pass
        return next((size for value in batch if (size := size_of(value)) is not None), None)
    if isinstance(batch, Mapping):
        for name in _TOKENS:
            if (shape := _shape(batch.get(name))) is not None:
                return _of_tokens(shape)
        return next((size for value in batch.values() if (size := size_of(value)) is not None), None)
    shape = _shape(batch)
    if shape is not None:
        return (
            (shape[0], shape[0] * shape[1])
            if len(shape) == 2 and _is_whole(getattr(batch, "dtype", None))
            else (shape[0], 0)
        )
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        return next((size for value in batch if (size := size_of(value)) is not None), None)
    return None


def _of_tokens(shape: tuple[int, ...]) -> tuple[int, int]:
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[0] * shape[1])


def _shape(value: Any) -> tuple[int, ...] | None:
    shape = getattr(value, "shape", None)
    if shape is None or not len(shape):
        return None
    return tuple(map(int, shape))


@functools.lru_cache(maxsize=16)
def _is_whole(dtype: Any) -> bool:
    return "int" in str(dtype)
