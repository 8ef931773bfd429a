"""Tally of a gateway's traffic since its start: endings, attempts that failed, and the last times of each backend."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from twinlens.gateway.outcome import Outcome

_LAST = 500


@dataclass(slots=True)
class Of:
    """One backend. `asked`: attempts; `failed`: those that did not end well, by kind. `ttft_s`: seconds from when an
    attempt began to its first content, of the last `_LAST` streams."""

    asked: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    ttft_s: deque[float] = field(default_factory=lambda: deque(maxlen=_LAST))
    output_tokens: int = 0


@dataclass(slots=True)
class Tally:
    """`endings`: requests by how they ended. `continued`: answers that a second backend went on with."""

    endings: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    of: dict[str, Of] = field(default_factory=dict)
    retried: int = 0
    hedged: int = 0
    continued: int = 0

    def add(self, outcome: Outcome) -> None:
        """One request that is over."""
        self.endings[outcome.ending] += 1
        if outcome.key:
            self.keys[outcome.key] += 1
        hedged = sum(each.failure == "hedged" for each in outcome.attempts)
        self.hedged += hedged
        self.retried += max(0, len(outcome.attempts) - 1 - hedged)
        begun = [each for each in outcome.attempts if each.first_ns is not None and each.failure != "hedged"]
        self.continued += len(begun) > 1
        for each in outcome.attempts:
            kept = self.of.setdefault(each.backend, Of())
            kept.asked += 1
            kept.output_tokens += each.output_tokens
            if each.failure:
                kept.failed[each.failure] += 1
            if each.first_ns is not None:
                kept.ttft_s.append((each.first_ns - each.begin_ns) / 1e9)
