"""Samples and tokens of one step: by the user's word, else by the loader, else by the model's forward passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Size = tuple[int, int]
"""Samples and tokens, padding included; tokens 0 where there are none."""


@dataclass(slots=True)
class StepWork:
    """What one step was given, and what its model was called with.

    A model that is called twice on one batch before the backward pass (two views, R-Drop) trains on that batch once:
    of calls without a backward pass between them the largest counts. Where no backward pass is seen, each call counts.
    The loader knows best how many samples a step has, the model how many tokens a sample has. `said`: every size that
    the user gave, which goes before both.
    """

    said: Size | None = None
    given: Size = (0, 0)
    calls: list[tuple[int, int, Any, int]] = field(default_factory=list)
    backwards: int = 0
    aside: bool = False

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
    def size(self) -> Size:
        """Samples, and tokens with padding."""
        return self._sized([tokens for _, tokens, _, _ in self._counted()])

    @property
    def passes(self) -> int:
        """Batches that the model was called on: parts of an accumulated step."""
        return len(self._counted())

    def real_tokens(self) -> int:
        """Tokens that are no padding, as far as the model was told which are. Reads tensors: only of an old step."""
        if self.said is not None:
            return self.said[1]
        return self._sized([tokens if real is None else int(real) for _, tokens, real, _ in self._counted()])[1]

    def _counted(self) -> list[tuple[int, int, Any, int]]:
        if not self.backwards:
            return self.calls
        largest: dict[int, tuple[int, int, Any, int]] = {}
        for call in self.calls:
            if call[3] not in largest or call[:2] > largest[call[3]][:2]:
                largest[call[3]] = call
        return list(largest.values())

    def _sized(self, tokens: list[int]) -> Size:
        if self.said is not None:
            return self.said
        samples, of_calls = sum(call[0] for call in self._counted()), sum(tokens)
        loaded = 0 if self.aside and samples else self.given[0]  # batches of an evaluation may be among the loader's
        if not loaded or loaded == samples:
            return samples, of_calls
        return loaded, round(of_calls * loaded / samples) if samples else self.given[1]
