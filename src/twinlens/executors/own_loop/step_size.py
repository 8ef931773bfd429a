"""Samples and tokens of one step: by the user's word, else by the loader, else by the model's forward passes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

Size = tuple[int, int]
"""Samples and tokens, padding included; tokens 0 where there are none."""
Call = tuple[int, int, Any, int]
"""Of a forward pass: samples, tokens, tokens without padding, and the backward passes before it."""


class StepWork:
    """What one step was given, and what its model was called with.

    A model that is called twice on one batch before the backward pass (two views, R-Drop) trains on that batch once:
    of calls without a backward pass between them the largest counts. Where no backward pass is seen, each call counts.
    The loader knows best how many samples a step has, the model how many tokens a sample has. Samples and tokens that
    the user gave go before both, each alone. `aside`: the model also ran without gradients.
    """

    __slots__ = ("aside", "backwards", "calls", "given", "said_samples", "said_tokens")

    def __init__(self, given: Size = (0, 0)) -> None:
        self.given = given
        self.said_samples: int | None = None
        self.said_tokens: int | None = None
        self.calls: list[Call] = []
        self.backwards, self.aside = 0, False

    def called(self, samples: int, tokens: int, real: Any = None) -> None:
        """One forward pass. `real`: tokens that are no padding, a number or a tensor with one; None where unknown."""
        self.calls.append((samples, tokens, real, self.backwards))

    def offered(self, samples: int, tokens: int) -> None:
        """One batch of the loader, by its shapes."""
        self.given = self.given[0] + samples, self.given[1] + tokens

    def said(self, samples: int | None, tokens: int | None) -> None:
        """One batch by the user's word; what is None is left to the shapes."""
        if samples is not None:
            self.said_samples = (self.said_samples or 0) + samples
        if tokens is not None:
            self.said_tokens = (self.said_tokens or 0) + tokens

    @property
    def is_sized(self) -> bool:
        """Whether anything says how many samples there are; tokens that are said are of one sample at least."""
        if self.said_samples is not None:
            return self.said_samples > 0
        return self.given[0] > 0 or bool(self.said_tokens) or any(call[0] for call in self.calls)

    @property
    def size(self) -> Size:
        """Samples, and tokens with padding."""
        return self._sized(False)

    @property
    def real_size(self) -> Size:
        """Samples, and tokens as far as the model was told which are padding. Reads tensors: only of an old step."""
        return self._sized(True)

    @property
    def passes(self) -> int:
        """Batches that the model was called on: parts of an accumulated step."""
        return len(self._counted())

    def _counted(self) -> list[Call]:
        if len(self.calls) < 2 or not self.backwards:
            return self.calls
        largest: dict[int, Call] = {}
        for call in self.calls:
            if call[3] not in largest or call[:2] > largest[call[3]][:2]:
                largest[call[3]] = call
        return list(largest.values())

    def _sized(self, unpadded: bool) -> Size:
        samples, tokens = self._shown(unpadded)
        if self.said_tokens is not None:
            samples, tokens = max(1, samples), self.said_tokens
        return samples if self.said_samples is None else self.said_samples, tokens

    def _shown(self, unpadded: bool) -> Size:
        """By the shapes of the loader's batches and of the calls."""
        samples = of_calls = 0
        for count, tokens, real, _ in self._counted():
            samples += count
            of_calls += int(real) if unpadded and real is not None else tokens
        loaded = self.given[0]
        # Beside calls without gradients an evaluation's batches may be among the loaded ones: more are then no more.
        if not loaded or loaded == samples or (self.aside and 0 < samples < loaded):
            return samples, of_calls
        return loaded, round(of_calls * loaded / samples) if samples else self.given[1]


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
