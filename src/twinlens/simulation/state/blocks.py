"""Blocks of KV cache, counted: which sequence holds how many, and whether more are free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from twinlens.simulation.state.sequence import Sequence

ENDLESS = 1 << 60
"""Blocks of a cache without a bound."""


class Cache(Protocol):
    """Who has which blocks. `total` is free + used at every moment."""

    @property
    def free(self) -> int: ...

    @property
    def used(self) -> int: ...

    def find(self, sequence: Sequence) -> int:
        """Blocks of its beginning that are here already."""

    def take(self, sequence: Sequence, tokens: int, found: int = 0, *, whole: bool = False) -> bool:
        """Blocks for its next tokens behind the `found` ones; False, and nothing taken, where too few are free.

        `whole`: only where all that it has to compute would fit.
        """

    def release(self, sequence: Sequence) -> None:
        """All blocks of it are free again."""


def blocks_of(tokens: int, size: int) -> int:
    """Blocks that so many tokens need."""
    return -(-tokens // size)


def out_of_window(computed: int, window: int | None, size: int) -> int:
    """Blocks in front that no token from here on attends to."""
    return 0 if window is None else max(0, computed - window + 1) // size


def within(tokens: int, window: int | None, size: int) -> int:
    """Tokens of these that have to be kept at once."""
    return tokens if window is None else min(tokens, window + size)


@dataclass(slots=True)
class Endless:
    """More blocks than are ever asked for: nobody is counted."""

    free: int = ENDLESS
    used: int = 0

    def find(self, sequence: Sequence) -> int:
        return 0

    def take(self, sequence: Sequence, tokens: int, found: int = 0, *, whole: bool = False) -> bool:
        return True

    def release(self, sequence: Sequence) -> None:
        pass


@dataclass(slots=True)
class Blocks:
    """Blocks without a prefix cache: only their number matters."""

    total: int
    size: int
    window: int | None = None
    used: int = 0

    @property
    def free(self) -> int:
        return self.total - self.used

    def find(self, sequence: Sequence) -> int:
        return 0

    def take(self, sequence: Sequence, tokens: int, found: int = 0, *, whole: bool = False) -> bool:
        size, free, gone = self.size, self.total - self.used, 0
        if self.window is not None:
            gone = out_of_window(sequence.computed, self.window, size)
        leave = gone - sequence.dropped
        more = max(0, -(-(sequence.computed + tokens) // size) - sequence.dropped - sequence.held)
        if more > free + leave or (whole and blocks_of(within(sequence.goal, self.window, size), size) > free):
            return False
        self.used += more - leave
        sequence.held += more - leave
        sequence.dropped = gone
        return True

    def release(self, sequence: Sequence) -> None:
        self.used -= sequence.held
        sequence.held = sequence.dropped = 0
