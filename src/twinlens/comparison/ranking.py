"""Rankings of several candidates, one for each lens and point: a range of ranks, as far as they can be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from twinlens.comparison.effect import Effect, headline
from twinlens.comparison.match import point_key
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import compare
from twinlens.record.codec import encode
from twinlens.stats.paired.ratio import Rates

FEWEST, MOST = 3, 12
"""Candidates of a ranking: two are a comparison, and the pairs of more than a dozen are too many to tell apart."""


@dataclass(frozen=True, slots=True)
class Rank:
    """The ranks that a candidate may have, 1 being best; both None where it may not be compared with all others."""

    side: Side
    best: int | None
    worst: int | None

    def __json__(self) -> dict[str, Any]:
        """A plain mapping."""
        return {"name": self.side.name, "folder": self.side.folder, "best": self.best, "worst": self.worst}


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates at one point, in the order given. Never over two lenses, nor over two points."""

    metric: str
    ranks: tuple[Rank, ...]

    def __json__(self) -> dict[str, Any]:
        """A plain mapping."""
        side = self.ranks[0].side
        plain = {"lens": side.lens, "model": side.group.model, "point": side.group.point, "metric": self.metric}
        return plain | {"ranks": self.ranks}

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return encode(self)


def rankings(folders: Sequence[Sequence[Side]], rates: Mapping[str, Rates] | None = None) -> tuple[Ranking, ...]:
    """A ranking for each point that at least three folders have, by the metric that stands first at such a load.

    All pairs are compared at a level at which all of them together hold (Bonferroni). A candidate is ranked behind
    those that are shown to be better, and before those that are shown to be worse: its rank is a range where some
    cannot be told apart from it.
    """
    points: dict[str, list[Side]] = {}
    for folder in folders:
        for side in folder:
            points.setdefault(point_key(side), []).append(side)
    return tuple(_ranking(sides, rates or {}) for sides in points.values() if FEWEST <= len(sides) <= MOST)


def _ranking(sides: Sequence[Side], rates: Mapping[str, Rates]) -> Ranking:
    metric = headline(sides[0]) or ""
    pairs = list(combinations(range(len(sides)), 2))
    level = 1 - 0.05 / len(pairs)
    effects = {(a, b): _effect(sides[a], sides[b], metric, rates, level) for a, b in pairs}
    unknown = {place for pair, effect in effects.items() if effect is None for place in _to_blame(pair, sides)}
    known = {pair: effect for pair, effect in effects.items() if effect is not None and not unknown & set(pair)}
    losers = [b if effect.is_worse else a for (a, b), effect in known.items() if effect.is_worse is not None]
    winners = [a if effect.is_worse else b for (a, b), effect in known.items() if effect.is_worse is not None]
    count = len(sides) - len(unknown)
    ranks = [
        Rank(side, None, None)
        if place in unknown
        else Rank(side, 1 + losers.count(place), count - winners.count(place))
        for place, side in enumerate(sides)
    ]
    return Ranking(metric, tuple(ranks))


def _effect(a: Side, b: Side, metric: str, rates: Mapping[str, Rates], level: float) -> Effect | None:
    effects = compare(a, b, rates, level=level).effects
    return next((each for each in effects if each.metric == metric and each.ratio.value is not None), None)


def _to_blame(pair: tuple[int, int], sides: Sequence[Side]) -> Sequence[int]:
    """The side of a pair without ratio that is not ranked; both, where it is the two together."""
    return [place for place in pair if not sides[place].group.ranked] or pair
