"""Tally of a gateway's traffic since its start: each thing is counted once, here, and read by page and Prometheus."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from decimal import Decimal

from twinlens.gateway.outcome import Outcome

_LAST = 500


def _times() -> deque[float]:
    return deque(maxlen=_LAST)


@dataclass(slots=True)
class Tally:
    """Counts by names of backends and keys of the gateway's file and words of ours, never by what a client wrote.

    `requests`: by the backend that answered ("": none was asked), key and ending; `refusals`: by key and status.
    `asked`: attempts of each backend; `failed`: those that did not end well, by backend and kind ("left": its client
    went away first), `retries`: those of them that another one followed. `tokens`: by backend, key and kind, as
    backends counted them; `uncounted`, `unpriced`: requests of a backend whose tokens or cost nobody knows; `money`: in
    the currency of the prices. `continued`: answers that a second backend went on with. `ttft_s`: of each backend
    seconds from when an attempt began to its first content, of the last `_LAST` streams.
    """

    requests: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    retries: Counter[tuple[str, str]] = field(default_factory=Counter)
    tokens: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    uncounted: Counter[str] = field(default_factory=Counter)
    unpriced: Counter[str] = field(default_factory=Counter)
    money: defaultdict[tuple[str, str], Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    continued: int = 0
    ttft_s: defaultdict[str, deque[float]] = field(default_factory=lambda: defaultdict(_times))

    def add(self, outcome: Outcome) -> None:
        """One request that is over."""
        last, key = outcome.last, outcome.key
        if last is None:
            self.requests["", key, outcome.ending] += 1
            self.refusals[key, str(outcome.status)] += 1
            return
        self.requests[last.backend, key, outcome.ending] += 1
        self._used(outcome, last.backend)
        begun = 0
        for each in outcome.attempts:
            self.asked[each.backend] += 1
            if each.failure:
                is_left = each.failure == "hedged" and outcome.ending == "left"
                self.failed[each.backend, "left" if is_left else each.failure] += 1
                if each is not last and each.failure != "hedged":
                    self.retries[each.backend, each.failure] += 1
            if each.first_ns is not None:
                self.ttft_s[each.backend].append((each.first_ns - each.begin_ns) / 1e9)
                begun += each.failure != "hedged"
        self.continued += begun > 1

    def _used(self, outcome: Outcome, name: str) -> None:
        if outcome.output_tokens is None:
            self.uncounted[name] += 1
        for kind, much in (("input", outcome.input_tokens), ("output", outcome.output_tokens),
                           ("cached", outcome.cached_tokens)):  # fmt: skip
            if much:
                self.tokens[name, outcome.key, kind] += much
        if outcome.money is None:
            self.unpriced[name] += 1
        else:
            self.money[name, outcome.key] += outcome.money

    def by(self, what: Counter[tuple[str, str]] | Counter[tuple[str, str, str]], place: int) -> dict[str, int]:
        """Sums of one count over all of its names but one."""
        found: Counter[str] = Counter()
        for names, count in what.items():
            found[names[place]] += count
        return dict(found)
