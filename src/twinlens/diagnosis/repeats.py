"""The repeats of one operating point as one evidence: a point has one verdict, and not one for each of its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median

from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.partition import Partition
from twinlens.diagnosis.phase import Phase
from twinlens.diagnosis.verdict import GRADES, verdict_of
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding

_MOST_AGREE = 2 / 3


def joined(seen: Sequence[Evidence]) -> Evidence:
    """One evidence of the repeats of a point: mean times of its parts and phases, and the median of each ceiling.

    A ceiling is measured once in each run, in a tenth of a second; the median leaves out one that another program
    lowered. What is asked and in use is equal in all repeats, and is the first's. It is ranked if every repeat is.
    """
    if len(seen) == 1:
        return seen[0]
    first = next((each for each in seen if each.partition.reason is None), seen[0])
    shares = [each.on_processor for each in seen if each.on_processor is not None]
    return replace(
        first,
        ranked=all(each.ranked for each in seen),
        partition=_partition([each.partition for each in seen if each.partition.reason is None] or [first.partition]),
        phases=tuple(_phase(phase, seen) for phase in first.phases),
        ceilings=_each(seen, lambda one: one.ceilings, _median),
        ceilings_after=_each(seen, lambda one: one.ceilings_after, _median),
        host=_each(seen, lambda one: one.host, _mean),
        on_processor=fmean(shares) if shares else None,
    )


def agreed(verdict: Finding, seen: Sequence[Evidence]) -> Finding:
    """The verdict of a point with how many of its repeats alone come to it; where they differ, it is less sure."""
    if len(seen) == 1:
        return verdict
    same = sum(verdict_of(each).code == verdict.code for each in seen)
    grade = GRADES.index(str(verdict.numbers["confidence"]))
    most = 2 if same == len(seen) else 1 if same >= _MOST_AGREE * len(seen) else 0
    numbers = dict(verdict.numbers) | {"confidence": GRADES[min(grade, most)], "repeats": len(seen), "agree": same}
    return replace(verdict, numbers=numbers)


def _partition(parts: Sequence[Partition]) -> Partition:
    """The mean of partitions, a part that a run does not have being no time in it."""
    names = dict.fromkeys(name for each in parts for name in each.parts)
    mean = {name: fmean(each.parts.get(name, 0.0) for each in parts) for name in names}
    last = {name: mean.pop(name) for name in ("unattributed",) if name in mean}
    return Partition(parts[0].unit, mean | last, sum(each.count for each in parts), parts[0].reason)


def _phase(phase: Phase, seen: Sequence[Evidence]) -> Phase:
    alike = [each for one in seen for each in one.phases if each.name == phase.name]
    known = [each.seconds for each in alike if each.seconds]
    return replace(phase, seconds=fmean(known) if known else None)


def _each(
    seen: Sequence[Evidence],
    of: Callable[[Evidence], Mapping[str, Estimate]],
    join: Callable[[Sequence[Estimate]], Estimate],
) -> dict[str, Estimate]:
    names = dict.fromkeys(name for one in seen for name in of(one))
    return {name: join([of(one)[name] for one in seen if name in of(one)]) for name in names}


def _median(estimates: Sequence[Estimate]) -> Estimate:
    return _joined(estimates, median, "median")


def _mean(estimates: Sequence[Estimate]) -> Estimate:
    return _joined(estimates, fmean, "mean")


def _joined(estimates: Sequence[Estimate], join: Callable[[Sequence[float]], float], name: str) -> Estimate:
    first, known = estimates[0], [each.value for each in estimates if each.value is not None]
    if len(estimates) == 1 or not known:
        return first
    method = f"{name} of {len(known)} runs: {next(each.method for each in estimates if each.value is not None)}"
    return Estimate(join(known), first.unit, method, "derived", n=len(known))
