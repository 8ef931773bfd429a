"""Rankings of several candidates, as far as they can be told apart, and the points of two studies that match."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from twinlens.comparison.effect import Effect, headline
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import compare
from twinlens.record.codec import encode
from twinlens.stats.paired.slice_rate import Rates

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
    alike = map(_alike, points.values())
    return tuple(_ranking(sides, rates or {}) for sides in alike if FEWEST <= len(sides) <= MOST)


def _alike(sides: Sequence[Side]) -> Sequence[Side]:
    """The sides without those that are simulated, which have no rank beside measured ones; all, where all are."""
    return [side for side in sides if not side.group.is_simulated] or sides


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


# Pairs of sides from folders of runs: one point against one, the points of one study, or the same point in each.


@dataclass(frozen=True, slots=True)
class Pairs:
    """`pairs`: baseline and other. `alone`: sides of the first folder or the others that have no
    counterpart. `folders`: all sides, as they were given. `missed`: points of the baseline without a counterpart, and
    the folder that lacks it ("" among the points of one folder)."""

    pairs: tuple[tuple[Side, Side], ...]
    alone: tuple[Side, ...] = ()
    folders: tuple[tuple[Side, ...], ...] = ()
    missed: tuple[tuple[Side, str], ...] = ()


def pairs_of(folders: Sequence[Sequence[Side]]) -> Pairs:
    """What is compared with what. `folders`: the sides found in each, the first of which holds the baseline.

    One folder: its first point of each lens and model (and size, of exchanges) against the others there. Several: sides
    that were asked the same
    point; where no two were, those that come nearest, so that the verdict says why they may not be compared.
    """
    if len(folders) == 1:
        return _within(folders[0])
    first, *others = folders
    pairs, missed = list[tuple[Side, Side]](), list[tuple[Side, str]]()
    for other in others:
        found = _nearest(first, other)
        judged = {id(a) for a, _ in found}
        pairs += found
        missed += [(side, other[0].folder if other else "") for side in first if id(side) not in judged]
    used = {id(side) for pair in pairs for side in pair}
    alone = tuple(side for folder in folders for side in folder if id(side) not in used)
    return Pairs(tuple(pairs), alone, tuple(map(tuple, folders)), tuple(missed))


def _nearest(first: Sequence[Side], other: Sequence[Side]) -> list[tuple[Side, Side]]:
    """Pairs by the same point, else by the same model and precision, else of one lens, else the first of each."""
    for key in (point_key, _regime):
        known: dict[str, Side] = {}
        for side in first:
            known.setdefault(key(side), side)
        if pairs := [(known[key(side)], side) for side in other if key(side) in known]:
            return pairs
    if len(first) == 1 or len(other) == 1:
        alike = [(a, b) for a in first for b in other if a.lens == b.lens]
        return alike or [(a, b) for a in first for b in other]
    lenses = [(a, b) for a in first for b in other if a.lens == b.lens]
    return (lenses or list(zip(first, other, strict=False)))[:1]


def _within(sides: Sequence[Side]) -> Pairs:
    baselines: dict[tuple[str, str, int], Side] = {}
    for side in sides:
        baselines.setdefault(_work(side), side)
    pairs = [(baselines[_work(side)], side) for side in sides]
    pairs = [(a, b) for a, b in pairs if a is not b]
    used = {id(side) for pair in pairs for side in pair}
    alone = tuple(side for side in sides if id(side) not in used)
    return Pairs(tuple(pairs), alone, missed=tuple((side, "") for side in alone))


def _work(side: Side) -> tuple[str, str, int]:
    """Lens and model, and of an exchange between ranks the size: other sizes are other work."""
    return side.lens, side.group.model, side.group.point.get("size_bytes") or 0


def point_key(side: Side) -> str:
    """Equal for sides of one lens, model and operating point."""
    return json.dumps([side.lens, side.group.model, side.group.point], sort_keys=True)


def _regime(side: Side) -> str:
    return json.dumps([side.lens, side.group.model, side.group.point["precision"]])
