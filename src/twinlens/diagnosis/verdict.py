"""The verdict: what binds, by the parts of time first and by the roofline of the busy part after that.

A part that is not computing and takes a quarter of the time is what binds. Else the busiest phase is held against
ceilings that this run measured. Its place left or right of the ridge alone decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any

from twinlens.diagnosis.decoder import shape_of
from twinlens.diagnosis.evidence import Evidence, evidence_of
from twinlens.diagnosis.phase import UNATTRIBUTED, Partition, Phase, Place, bounded_place_of, known
from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.spec.precision import PRECISIONS
from twinlens.stats.summary.group import Summary
from twinlens.theory.memory import layout_of, training_memory

BINDS = 0.6
"""Of a measured ceiling: at least this share of it, and the ceiling is what binds."""
PART_BINDS = 0.25
"""Of the time: a part other than computing that takes this share is what binds."""
MOST_UNATTRIBUTED = 0.1
MOST_OF_CEILING = 1.15  # a share above that says that the ceiling, or the work, is another than was thought
ABOUT_KERNELS = ("below-ceilings", "kernel-bound", "latency-bound")
"""Verdicts to which the time by class of kernel says more."""
ROOFLINE = ("ridge", "intensity")
"""Laws of theory that a verdict by a roof rests on: one that has a `ridge` among its numbers."""
_CACHE_FULL = 0.95
_NEAR = 0.1
_WAITS = {
    "data": "input-bound",
    "communicate": "interconnect-bound",
    "between-steps": "host-bound",
    "before-sending": "host-bound",
    "after-last-token": "host-bound",
    "transport": "host-bound",
    "held": "queue-bound",
    "queue": "queue-bound",
}
GRADES = ("low", "medium", "high")


def verdict_of(seen: Evidence) -> Finding:
    """What binds the step or the request: one verdict, its numbers, and what would prove it wrong."""
    partition = seen.partition
    if partition.reason is not None:
        return _indeterminate(partition.unit, "no-partition", seen)
    waits: dict[str, float] = {}
    for part, code in _WAITS.items():
        waits[code] = waits.get(code, 0.0) + partition.share(part)
    code = max(waits, key=lambda name: waits[name])
    if waits[code] >= PART_BINDS:
        return _wait(code, waits[code], seen)
    if partition.share(UNATTRIBUTED) > MOST_UNATTRIBUTED:
        return _indeterminate(partition.unit, "unattributed", seen, {"share": partition.share(UNATTRIBUTED)})
    busiest = max(seen.phases, key=lambda phase: partition.parts.get(phase.part, 0.0))
    return phase_verdict(busiest, seen)


def phase_verdict(phase: Phase, seen: Evidence) -> Finding:
    """What binds one phase. Where ceilings moved during the run, both sets have to come to the same."""
    before = _by_roof(phase, seen, seen.ceilings)
    if not seen.ceilings_after:
        return before
    moved = {name: each for name, each in seen.ceilings_after.items() if known(seen.ceilings_after, name)}
    after = _by_roof(phase, seen, dict(seen.ceilings) | moved)
    if after.code == before.code:
        return before
    return _indeterminate(phase.name, "ceilings-moved", seen, {"before": before.code, "after": after.code})


def _by_roof(phase: Phase, seen: Evidence, ceilings: Mapping[str, Estimate]) -> Finding:
    place = bounded_place_of(phase, ceilings)
    if place is None:
        why = "no-work" if phase.reason or not phase.flop else "no-ceiling"
        return _indeterminate(phase.name, why, seen, {"reason": phase.reason} if phase.reason else {})
    numbers = place.to_numbers() | {"seconds": phase.seconds} | ({"probed": True} if seen.probed else {})
    if max(0.0 if place.at_most_because else place.compute_share, place.bandwidth_share) > MOST_OF_CEILING:
        return _indeterminate(phase.name, "above-ceiling", seen, numbers)
    code = _code(place)
    if code is None:
        return _indeterminate(phase.name, "work-bounded" if place.at_most_because else "near-ridge", seen, numbers)
    held = seen.on_processor or 1.0
    if code == "below-ceilings" and max(place.compute_share, place.bandwidth_share) >= BINDS * held:
        return _indeterminate(phase.name, "processor-shared", seen, numbers | {"on_processor": held})
    decided = {"compute-bound": place.compute_share, "below-ceilings": max(place.compute_share, place.bandwidth_share)}
    margin = abs(decided.get(code, place.bandwidth_share) - BINDS)
    numbers |= {"tried": dict(seen.in_use)} | _expected(code, place, phase, seen.batch)
    return _found(code, phase.name, numbers, _grade(seen, margin), seen.host if code == "below-ceilings" else {})


def _code(place: Place) -> str | None:
    """By intensity against the ridge, and the share of the ceiling on that side; None where it cannot be told.

    A share of the rate of its own kernels, where a plain read is far from its ceiling, says that the kernels bind: that
    they are at their own rate is no sign that memory is at its.
    """
    right = place.intensity_low is not None and place.intensity_low >= place.ridge
    left = place.intensity_high <= place.ridge
    if right and place.compute_share >= BINDS:
        return "compute-bound"
    if left and place.bandwidth_share >= BINDS:
        return "bandwidth-bound" if place.stream_share >= BINDS else "kernel-bound"
    if place.compute_share < BINDS and place.bandwidth_share < BINDS and (right or left or place.at_most_because):
        unsure = (left or place.at_most_because) and (place.bandwidth_share_most or 0.0) >= BINDS
        return None if unsure else "below-ceilings"
    return None


def _expected(code: str, place: Place, phase: Phase, batch: int | None) -> dict[str, Any]:
    """One change, and the least and the most that it gives if the verdict is right: less refutes it as well as more.

    compute-bound: at twice the batch the step stays compute-bound, and cannot exceed the ceiling.
    bandwidth-bound: half the bytes of the weights give at least half of what that share of the time would save, and at
    most what all of the time would. below-ceilings: fixed costs, if they are what binds, are shared by twice the batch.
    kernel-bound: other kernels reach a plain read at most.
    """
    if code == "compute-bound":
        least, most = BINDS / place.compute_share, max(1.0, 1 / place.compute_share)
        return {"change": "double-batch", "at_least": min(1.0, least), "at_most": most, "batch": batch}
    if code == "bandwidth-bound":
        weights = min(1.0, phase.kernel_bytes / phase.least_bytes) if phase.kernel_bytes and phase.least_bytes else 1.0
        saved = 1 / (1 - min(1.0, place.bandwidth_share) * weights / 2) - 1
        return {"change": "halve-weights", "at_least": 1 + saved / 2, "at_most": 1 / (1 - weights / 2)}
    if code == "kernel-bound":
        return {"change": "other-kernels", "at_most": 1 / place.stream_share}
    busiest = max(place.compute_share, place.bandwidth_share)
    return {"change": "double-batch", "at_least": 2 / (1 + busiest), "batch": batch}


def _wait(code: str, share: float, seen: Evidence) -> Finding:
    parts = [name for name, of in _WAITS.items() if of == code and seen.partition.share(name) > 0]
    numbers: dict[str, Any] = {"share": share, "parts": parts, "seconds": share * seen.partition.seconds}
    numbers |= {"tried": dict(seen.in_use), "change": "remove-wait", "at_most": 1 / (1 - share) if share < 1 else None}
    full, preempted = (known(seen.metrics, name) for name in ("server_kv_use_max", "server_preemptions"))
    if code == "queue-bound" and (preempted or (full or 0.0) >= _CACHE_FULL):
        code, numbers = "capacity-bound", numbers | {"kv_use": full, "preemptions": preempted}
    evidence = seen.host if code == "host-bound" else {}
    return _found(code, seen.partition.unit, numbers, _grade(seen, share - PART_BINDS), evidence)


def _indeterminate(subject: str, why: str, seen: Evidence, numbers: Mapping[str, Any] | None = None) -> Finding:
    return _found("indeterminate", subject, {"why": why} | dict(numbers or {}), 0)


def _grade(seen: Evidence, margin: float) -> int:
    """2 of a valid run and a share that is clear of its threshold; one less for each that is missing, and where the
    ceilings are of another hour."""
    return max(0, int(seen.ranked) + int(margin >= _NEAR) - int(seen.probed))


def _found(
    code: str, subject: str, numbers: Mapping[str, Any], grade: int, evidence: Mapping[str, Estimate] | None = None
) -> Finding:
    return Finding(code, "notes", subject, {**numbers, "confidence": GRADES[grade]}, evidence or {})


# Fitness of an executor for the work that it was measured on: good for it, or inadequate, and by which resource.

_UNFIT = ("slo-missed", "fidelity-failed", "target-missed", "diverged")
"""Findings that say that the work was not done as it must be; all others say that the measurement was not good."""


def fitness(run: Run, summary: Summary) -> Finding:
    """`good-for` its work where the run is ranked, `inadequate-for` where a target was missed, else `fitness-unknown`.

    `resource`: what binds, by the diagnosis; of a failed quality check or a diverged loss, the precision.
    """
    because = tuple(each for each in summary.findings if each.code in _UNFIT)
    try:
        bound = verdict_of(evidence_of(run, summary)).code
    except BadInput:
        bound = "indeterminate"
    by_format = any(each.code in ("fidelity-failed", "diverged") for each in because)
    numbers = {
        "lens": run.lens, "model": summary.model, "precision": summary.point["precision"],
        "resource": "precision" if by_format else bound, "label": summary.label,
    }  # fmt: skip
    code = "inadequate-for" if because else "good-for" if summary.ranked else "fitness-unknown"
    return Finding(code, "notes", run.lens, numbers, because=because)


def training_state(run: Run) -> Finding | None:
    """Whether the memory of an executor that serves a decoder could hold that model's training state, by theory.

    bf16 mixed precision with AdamW, one sequence of the served length, everything recomputed: the least there is. None
    of a training run, and where shape or memory is not known.
    """
    shape = shape_of(run)
    facts = run.facts.executor if run.facts else None
    if run.lens == "training" or shape is None or facts is None:
        return None
    memory = facts.value("accelerator.memory_bytes") or facts.value("host.memory_bytes")
    if not isinstance(memory, int | float) or memory <= 0:
        return None
    workload = run.spec.workload
    lengths = [getattr(workload, name, None) for name in ("input_tokens", "output_tokens")]
    tokens = sum(each.max for each in lengths if each is not None) or 1
    needed = training_memory(shape, layout_of(PRECISIONS["bf16"]), 1, tokens, "full").total_bytes
    numbers = {"needed_bytes": needed, "memory_bytes": memory, "fits": needed <= memory, "tokens": tokens}
    return Finding("training-state", "notes", "training", numbers)


# The repeats of one operating point as one evidence: a point has one verdict, and not one for each of its runs.

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
