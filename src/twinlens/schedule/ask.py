"""What one request asks for, and the schedule that says when each is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from twinlens.record.request import Request


@dataclass(frozen=True, slots=True)
class Ask:
    """`number`: position in the schedule. `group`: asks that start together share it. Lengths in tokens (0 for images).

    `seed` decides the prompt, so that no two asks of a run, and no two runs, share one.
    """

    number: int
    group: int
    intended_ns: int
    input_tokens: int
    output_tokens: int
    seed: tuple[int, ...]


class Schedule(Protocol):
    """Pure and seeded; it is told the time and what is done, and has no clock of its own."""

    def due(self, now_ns: int) -> tuple[Ask, ...]:
        """The asks to start now; each is handed out once. Empty: nothing is due, or it is over."""
        ...

    def next_due_ns(self) -> int | None:
        """When the next ask is due; None when that depends on something being done first, or it is over."""
        ...

    def done(self, request: Request) -> None:
        """One request has ended."""
        ...
