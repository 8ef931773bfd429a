"""Samples and tokens of one step: by the user's word, else by the loader, else by the model's forward passes."""

from __future__ import annotations

from typing import Any

Size = tuple[int, int]
"""Samples and tokens, padding included; tokens 0 where there are none."""
Call = tuple[int, int, Any, int]
"""Of a forward pass: samples, tokens, tokens without padding, and the backward passes before it."""


class StepWork:
    """What one step was given, and what its model was called with.

    A model that is called twice on one batch before the backward pass (two views, R-Drop) trains on that batch once:
    of calls without a backward pass between them the largest counts. Where no backward pass is seen, each call counts.
    The loader knows best how many samples a step has, the model how many tokens a sample has. `said`: every size that
    the user gave, which goes before both. `aside`: the model also ran without gradients.
    """

    __slots__ = ("aside", "backwards", "calls", "given", "said")

    def __init__(self, said: Size | None = None) -> None:
        self.said, self.given = said, (0, 0)
        self.calls: list[Call] = []
        self.backwards, self.aside = 0, False

    def called(self, samples: int, tokens: int, real: Any = None) -> None:
        """One forward pass. `real`: tokens that are no padding, a number or a tensor with one; None where unknown."""
        self.calls.append((samples, tokens, real, self.backwards))

    def offered(self, samples: int, tokens: int, *, said: bool = False) -> None:
        """One batch of the loader; `said`: by the user."""
        if said:
            before = self.said or (0, 0)
            self.said = before[0] + samples, before[1] + tokens
        else:
            self.given = self.given[0] + samples, self.given[1] + tokens

    @property
    def is_sized(self) -> bool:
        """Whether anything says how many samples there are."""
        known = self.given[0] if self.said is None else self.said[0]
        return known > 0 or (self.said is None and any(call[0] for call in self.calls))

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
        if self.said is not None:
            return self.said
        samples = of_calls = 0
        for count, tokens, real, _ in self._counted():
            samples += count
            of_calls += int(real) if unpadded and real is not None else tokens
        loaded = self.given[0]
        if not loaded or loaded == samples or (self.aside and samples):  # an evaluation's batches may be among these
            return samples, of_calls
        return loaded, round(of_calls * loaded / samples) if samples else self.given[1]
