"""Several runs as one value: a sequence that shows itself in a few lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

from twinlens.errors import BadInput
from twinlens.record.run import Run

_MOST_LINES = 20


@dataclass(frozen=True, slots=True, repr=False)
class Runs(Sequence[Run]):
    """Runs in order. `faults`: what is wrong with the ones that could not be read."""

    items: tuple[Run, ...]
    faults: tuple[BadInput, ...] = ()

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Runs:
        """Runs that were all read."""
        return cls(tuple(runs))

    @property
    def fault(self) -> BadInput:
        """The first of `faults`, saying how many more there are. Raises IndexError where there is none."""
        more = f" (and {len(self.faults) - 1} more that cannot be read)" if len(self.faults) > 1 else ""
        return BadInput(f"{self.faults[0]}{more}", code=self.faults[0].code)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, place: int) -> Run: ...
    @overload
    def __getitem__(self, place: slice) -> Runs: ...
    def __getitem__(self, place: int | slice) -> Run | Runs:
        return Runs(self.items[place]) if isinstance(place, slice) else self.items[place]

    def __add__(self, other: Iterable[Run]) -> Runs:
        more = other if isinstance(other, Runs) else Runs.of(other)
        return Runs(self.items + more.items, self.faults + more.faults)

    def __repr__(self) -> str:
        lines = [repr(run) for run in self.items[:_MOST_LINES]]
        left = len(self.items) - len(lines)
        lines += [f"… and {left} more"] if left else []
        lines += [f"{len(self.faults)} could not be read: {self.faults[0]}"] if self.faults else []
        return "\n".join([f"{len(self.items)} run{'' if len(self.items) == 1 else 's'}:", *lines])
