"""The verb behind `compare --history`: measurements in a folder, in order of time, and what their metric did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from twinlens.api.compare import sides
from twinlens.api.question import asks
from twinlens.api.questions import COMPARE
from twinlens.api.questions import History as Asked
from twinlens.api.runs import read
from twinlens.comparison.difference import workload_hash
from twinlens.comparison.effect import headline
from twinlens.comparison.history import Entry, History
from twinlens.comparison.history import history as history_of
from twinlens.comparison.ranking import point_key
from twinlens.comparison.side import Side, metric_of
from twinlens.comparison.verdict import compare
from twinlens.errors import BadInput
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.stats.metrics.definition import METRICS

if TYPE_CHECKING:
    from twinlens.api.words import HistoryWords

LeftOut = tuple[str, Finding]


@asks(COMPARE, Asked)
def history(*folders: str | Path, **words: Unpack[HistoryWords]) -> tuple[History, ...]:
    """The history of each lens, model and point that was measured at least twice on one machine.

    `metric`: an id or a label ("ttft_p99"); without it, that which is said first at such a load. Only comparable
    measurements enter: finished, ranked, of one workload. Raises BadInput (TL225, TL227).
    """
    named = Asked.read(COMPARE.name, {"runs": folders, **words}).metric
    asked = metric_of(named) if named else None
    found_runs = [read(folder, skip_broken=True) for folder in folders]
    runs = [run for each in found_runs for run in each]
    broken = tuple(
        (f"run {number}", Finding("not-readable", "notes", "", {"reason": str(fault)}))
        for number, fault in enumerate((fault for each in found_runs for fault in each.faults), start=1)
    )
    series: dict[str, list[Side]] = {}
    simulated = list[LeftOut]()
    for side in measurements(runs):
        if side.group.is_simulated:  # it says nothing of a moment
            simulated.append((side.name, Finding("simulated-in-history", "notes")))
            continue
        machine = side.group.machine.id if side.group.machine else ""
        series.setdefault(point_key(side) + machine, []).append(side)
    made = [_history(members, asked) for members in series.values()]
    found = tuple(each for each in made if each is not None)
    if not found:
        count = sum(map(len, series.values()))
        unranked = sum(not side.group.ranked for members in series.values() for side in members)
        what = f" with {METRICS[asked].label}" if asked else ""
        raise BadInput(
            f"there is no history: no point was measured twice on one machine{what} and compared "
            f"({unranked} of {count} measurements may not be); give a folder with one spec measured again and again",
            code="TL225",
        )
    return (replace(found[0], left_out=(*broken, *simulated, *found[0].left_out)), *found[1:])


def measurements(runs: Iterable[Run]) -> Iterator[Side]:
    """The sides of each study among some runs, a study at a time, in order of time; a run alone is one."""
    studies: dict[Path, list[Run]] = {}
    for run in runs:
        parent = run.folder.resolve().parent
        studies.setdefault(parent if (parent / "study.json").exists() else run.folder.resolve(), []).append(run)
    for folder, members in sorted(studies.items(), key=lambda item: min(run.started_utc for run in item[1])):
        for side in sides(members, False):
            yield Side(folder.name, side.group, side.runs, folder.name)


def _history(members: Sequence[Side], asked: str | None) -> History | None:
    """The history of one point on one machine: of the workload that was measured most often, the last of equals."""
    hashes = [workload_hash(side) for side in members]
    counted = Counter(hashes)
    usual = max(reversed(hashes), key=lambda each: counted[each])
    model = next(side for side, each in zip(reversed(members), reversed(hashes), strict=True) if each == usual)
    first = next((side for side in reversed(members) if side.group.ranked and side.group.metrics), model)
    metric = asked or headline(first)
    if metric is None:
        return None
    entries, left_out = list[Entry](), list[LeftOut]()
    for side in members:
        why = _against(model, side, metric)
        if why is not None:
            left_out.append((side.name, why))
        elif (value := side.group.metrics[metric].value) is not None:
            entries.append(Entry(side, min(run.started_utc for run in side.runs), value))
    return history_of(entries, metric, left_out) if len(entries) > 1 else None


def _against(model: Side, side: Side, metric: str) -> Finding | None:
    """Why a measurement is not part of a history; None where it is."""
    estimate = side.group.metrics.get(metric)
    if not side.group.ranked:
        state, label, because = side.group.fault
        return Finding("entry-not-ranked", "notes", "", {"state": state, "label": label}, because=because)
    if side is not model:
        grave = [each for each in compare(model, side).findings if each.severity == "disqualifies"]
        grave = [each for each in grave if each.code != "side-not-ranked"]
        if grave:
            return grave[0]
    if estimate is None or estimate.value is None:
        reason = estimate.lacks if estimate else "not a metric of such a run"
        return Finding("not-in-history", "notes", metric, {"reason": reason})
    return None
