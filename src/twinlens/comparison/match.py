"""Pairs of sides from folders of runs: one point against one, the points of one study, or the same point in each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from twinlens.comparison.side import Side


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
