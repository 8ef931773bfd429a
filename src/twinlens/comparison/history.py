"""The history of one metric: runs of one workload on one machine over time, where it changed, and what changed then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlens.comparison.difference import Difference, differences, of_role
from twinlens.comparison.side import Side
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.foreign_text import in_one_line
from twinlens.stats.history import Shift, difference_of_levels, ratio_of_levels, shifts
from twinlens.stats.metrics.definition import definition_of

_OF_THE_MOMENT = ("other work", "content")


@dataclass(frozen=True, slots=True)
class Entry:
    """One measurement. `at_utc`: the start of its first run; `value`: over its repeats."""

    side: Side
    at_utc: str
    value: float


@dataclass(frozen=True, slots=True)
class Edit:
    """A difference of the executor between entry `at` and the entry before it."""

    at: int
    difference: Difference

    def __json__(self) -> dict[str, Any]:
        """A plain mapping."""
        return {"at": self.at, **encode(self.difference)}


@dataclass(frozen=True, slots=True)
class Change:
    """A change of level. `before`, `after`: the means of the levels on either side of it; `ratio`, `difference`: of the
    two, with intervals that count how far neighbours resemble each other. `edits`: what else changed just then."""

    shift: Shift
    before: Estimate
    after: Estimate
    ratio: Estimate
    difference: Estimate
    is_worse: bool | None
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class History:
    """One metric of one point over time. `quiet`: edits of the executor at which no change showed. `left_out`: names of
    measurements that are not part of it, each with why."""

    metric: str
    unit: str
    entries: tuple[Entry, ...]
    changes: tuple[Change, ...]
    quiet: tuple[Edit, ...]
    left_out: tuple[tuple[str, Finding], ...] = ()

    def __repr__(self) -> str:
        counted = f"{len(self.entries)} measurements, {len(self.changes)} changes"
        return in_one_line(f"<History of {self.metric}, {self.entries[-1].side.name}: {counted}>")

    def __json__(self) -> dict[str, Any]:
        """A plain mapping."""
        side = self.entries[-1].side
        return {
            "lens": side.lens,
            "model": side.group.model,
            "point": side.group.point,
            "metric": self.metric,
            "unit": self.unit,
            "entries": [
                {"name": each.side.name, "at_utc": each.at_utc, "value": each.value} | {"runs": len(each.side.runs)}
                for each in self.entries
            ],
            "changes": [self._change(each) for each in self.changes],
            "changed_without_effect": self.quiet,
            "left_out": [{"name": name} | encode(why) for name, why in self.left_out],
        }

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return encode(self)

    def _change(self, change: Change) -> dict[str, Any]:
        shift, times = change.shift, [each.at_utc for each in self.entries]
        places = {"at": shift.at, "earliest": shift.earliest, "latest": shift.latest}
        estimates = {name: encode(getattr(change, name)) for name in ("before", "after", "ratio", "difference")}
        return (
            places
            | {f"{name}_utc": times[place] for name, place in places.items()}
            | {"chance": shift.chance, "worse": change.is_worse}
            | estimates
            | {"edits": [encode(each) for each in change.edits]}
        )


def history(entries: Sequence[Entry], metric: str, left_out: Sequence[tuple[str, Finding]] = ()) -> History:
    """The history of comparable measurements, in order of time; see `stats/history.py` for its changes."""
    values = np.asarray([each.value for each in entries], dtype=np.float64)
    unit = entries[0].side.group.metrics[metric].unit
    found = shifts(values)
    edits = list(_edits(entries))
    changes = tuple(_change(values, found, place, metric, unit, edits) for place in range(len(found)))
    told = {id(edit) for change in changes for edit in change.edits}
    return History(
        metric, unit, tuple(entries), changes, tuple(each for each in edits if id(each) not in told), tuple(left_out)
    )


def _change(
    values: np.ndarray, found: Sequence[Shift], place: int, metric: str, unit: str, edits: Sequence[Edit]
) -> Change:
    shift = found[place]
    start = found[place - 1].at if place else 0
    stop = found[place + 1].at if place + 1 < len(found) else values.size
    before, after = values[start : shift.at], values[shift.at : stop]
    means = [
        Estimate(float(level.mean()), unit, f"mean of {level.size} entries", "derived", n=level.size)
        for level in (before, after)
    ]
    better = definition_of(metric).better
    worse = None if better == "none" else bool((after.mean() < before.mean()) == (better == "more"))
    ratio, gap = ratio_of_levels(before, after), difference_of_levels(before, after, unit)
    near = tuple(each for each in edits if shift.earliest <= each.at <= shift.latest)
    return Change(shift, means[0], means[1], ratio, gap, worse, near)


def _edits(entries: Sequence[Entry]) -> Iterator[Edit]:
    """What changed in the executor between neighbours; not what is of the moment, nor what one of them does not say."""
    for at in range(1, len(entries)):
        for one in of_role(differences(entries[at - 1].side, entries[at].side), "V", "Q"):
            if one.is_known and one.aspect not in _OF_THE_MOMENT:
                yield Edit(at, one)
