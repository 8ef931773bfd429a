"""The last routes and what became of them: each explained, how often predictions held, what choices cost."""

from __future__ import annotations

import itertools
import statistics
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from twinlens.gateway.outcome import Attempt, Outcome
from twinlens.gateway.routing.route import Band, Candidate, Route

KEPT = 2000
"""Routes that are kept: of 16 candidates each, about 10 MB."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One backend that was asked. `ttft_s`: of a stream, from sending to its first content, None where none came."""

    route: Route
    ttft_s: float | None
    took_s: float
    failure: str
    said: str


@dataclass(frozen=True, slots=True)
class Audited:
    """One request without its text."""

    id: str
    model: str
    ending: str
    error: str
    tried: tuple[Tried, ...]


class Audit:
    """Takes each outcome once; the oldest of more than `KEPT` are forgotten."""

    def __init__(self, kept: int = KEPT) -> None:
        self._most = kept
        self._kept: OrderedDict[str, Audited] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, outcome: Outcome) -> None:
        if not outcome.attempts:
            return
        tried = tuple(_tried(each, outcome) for each in outcome.attempts)
        self._kept[outcome.id] = Audited(outcome.id, outcome.model, outcome.ending, outcome.error, tried)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def route(self, id: str) -> dict[str, Any] | None:
        """One request as plain data; None for one that is not kept (any more)."""
        found = self._kept.get(id)
        return None if found is None else _plain(found)

    def last(self, count: int) -> list[dict[str, Any]]:
        """The newest first, each in short: where it went and why, the TTFT that was predicted, and the one that came
        (of the attempt that was made last)."""
        newest = itertools.islice(reversed(self._kept.values()), count)
        return [
            {
                "id": each.id, "backend": tried.route.backend.name, "ending": each.ending, "attempts": len(each.tried),
                "reason": tried.route.reason, "ttft_s": tried.ttft_s,
                "predicted_ttft_s": _plain_band(tried.route.chosen.ttft_s),
            }
            for each in newest
            for tried in each.tried[-1:]
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Over all that is kept: how many routes, and the regret of choices."""
        regrets = self.regrets_s()
        return {
            "routes": len(self._kept),
            "regret_s": {"n": len(regrets), "mean": statistics.fmean(regrets), "largest": max(regrets)}
            if regrets else {"n": 0, "reason": "no route had two predicted candidates and a first token"},
        }  # fmt: skip

    def regrets_s(self) -> list[float]:
        """Of each first attempt with a first token and a second candidate that was predicted: by how much TTFT was
        longer than the best other one's, as predicted; what its backend's predictions missed by, in the middle of all
        kept routes, is put right afterwards. 0 where the choice was the best.

        What the others would have taken is modelled: nobody asked them.
        """
        off = self._off()
        regrets = []
        for each in self._kept.values():
            first = each.tried[0]
            others = [
                other.ttft_s.middle * off.get(other.backend, 1.0)
                for other in first.route.candidates
                if other.ttft_s is not None and not other.out and other.backend != first.route.backend.name
            ]
            if first.ttft_s is not None and others:
                regrets.append(max(0.0, first.ttft_s - min(others)))
        return regrets

    def _off(self) -> dict[str, float]:
        """By backend, the median of true over predicted TTFT."""
        ratios: dict[str, list[float]] = {}
        for each in self._kept.values():
            for tried in each.tried:
                band = tried.route.chosen.ttft_s
                if tried.ttft_s is not None and band is not None:
                    ratios.setdefault(tried.route.backend.name, []).append(tried.ttft_s / band.middle)
        return {name: statistics.median(each) for name, each in ratios.items()}


def _tried(attempt: Attempt, outcome: Outcome) -> Tried:
    streams = outcome.asked is not None and outcome.asked.streams
    ttft_s = (attempt.first_ns - attempt.begin_ns) / 1e9 if streams and attempt.first_ns is not None else None
    took_s = max(0, attempt.end_ns - attempt.begin_ns) / 1e9
    return Tried(attempt.route, ttft_s, took_s, attempt.failure, attempt.said)


def _plain(each: Audited) -> dict[str, Any]:
    return {"id": each.id, "model": each.model, "ending": each.ending, "error": each.error,
            "attempts": [*_attempts(each)]}  # fmt: skip


def _attempts(each: Audited) -> Iterator[dict[str, Any]]:
    for tried in each.tried:
        band = tried.route.chosen.ttft_s
        has_both = band is not None and tried.ttft_s is not None
        yield {
            "backend": tried.route.backend.name, "reason": tried.route.reason, "ttft_s": tried.ttft_s,
            "held": band.low <= tried.ttft_s <= band.high if has_both else None,  # type: ignore[union-attr, operator]
            "took_s": tried.took_s, "failure": tried.failure, "said": tried.said,
            "first_token_within_s": tried.route.first_token_s,
            "candidates": [_candidate(one) for one in tried.route.candidates],
        }  # fmt: skip


def _candidate(one: Candidate) -> dict[str, Any]:
    return one._asdict() | {"ttft_s": _plain_band(one.ttft_s), "tpot_s": _plain_band(one.tpot_s)}


def _plain_band(band: Band | None) -> dict[str, float] | None:
    return None if band is None else band._asdict()
