"""Findings on steadiness, on the bubble of a pipeline, and on saves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlens.record.column import lists, numbers
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.record.sections import Checkpoints, Resumed
from twinlens.stats.estimator.rate import rate_interval, theil_sen
from twinlens.stats.steady.levels import SteadyRule
from twinlens.stats.summary.group import Verdict
from twinlens.units import RATIO

MOST_CV = 0.03
"""Spread of row time over its mean; above it a run has to be long to show anything."""
MOST_CLOCK_CV = 0.01
MOST_WARMING_C_PER_MIN = 1.0
_FEWEST_SAMPLES = 10  # of telemetry: fewer have no spread and no slope
_MOST_SAMPLES = 500  # slopes are taken of all pairs
_LEVEL = 0.99


def disturbed(verdict: Verdict) -> Iterable[Finding]:
    """Stretches of the window that left its level: in every figure, and a fault beyond what passes."""
    stretches = verdict.disturbed
    if stretches.stretches:
        worst = stretches.largest
        numbers = {
            "count": len(stretches.stretches),
            "share": stretches.share,
            "effect": stretches.effect,
            "factor": worst.factor,
            "begin_s": worst.begin_s,
            "end_s": worst.end_s,
        }
        where = None if worst.begin_s is None or worst.end_s is None else (worst.begin_s, worst.end_s)
        yield Finding("disturbed", "disqualifies" if stretches.heavy else "warns", "", numbers, where=where)


def change_unseen(verdict: Verdict, near: float = SteadyRule().near) -> Iterable[Finding]:
    """A run that is steady only as far as it could have seen: a change of `near` might have gone by."""
    visible = verdict.least_visible_change
    if verdict.validity == "valid" and visible is not None and visible > near:
        yield Finding("change-unseen", "warns", "", {"least_visible_change": visible, "near": near})


def row_spread(verdict: Verdict) -> Iterable[Finding]:
    """Row times that scatter by more than a steady machine's do."""
    if verdict.validity == "valid" and verdict.cv is not None and verdict.cv > MOST_CV:
        yield Finding("rows-scatter", "notes", "", {"cv": verdict.cv, "limit": MOST_CV})


def extended(times: int, asked_s: float, verdict: Verdict) -> Iterable[Finding]:
    """A run that was doubled until it looked steady, or until no more doublings were allowed."""
    if times > 0:
        numbers = {"times": times, "asked_s": asked_s, "lasted_s": verdict.end_s}
        yield Finding("extended", "notes", "", numbers)


def machine(verdict: Verdict, telemetry: pa.Table) -> Iterable[Finding]:
    """Clocks that moved and temperatures that rose inside the window of a run that is otherwise steady."""
    if verdict.validity == "not valid":
        return
    for source, column, time_s, values in _sampled(telemetry, verdict.begin_s, verdict.end_s):
        if column == "temperature_c":
            slope, low, _ = (60 * value for value in theil_sen(values, _LEVEL, time_s))
            if low > 0 and slope > MOST_WARMING_C_PER_MIN:
                numbers = {"c_per_min": slope, "limit": MOST_WARMING_C_PER_MIN, "reached_c": float(values.max())}
                yield Finding("still-warming", "warns", source, numbers)
        elif values.mean() > 0 and values.std() > MOST_CLOCK_CV * values.mean():
            numbers = {"cv": float(values.std() / values.mean()), "limit": MOST_CLOCK_CV, "mean_mhz": values.mean()}
            yield Finding("clock-moves", "warns" if column == "sm_mhz" else "notes", source, numbers)


def _sampled(telemetry: pa.Table, begin_s: float, end_s: float) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """(source, column, times, values) of what was sampled often enough between two moments of the run."""
    time_s = telemetry.column("time_ns").to_numpy() / 1e9
    inside = telemetry.filter(pa.array((time_s >= begin_s) & (time_s <= end_s)))
    sources = inside.column("source").to_numpy(zero_copy_only=False)
    for source in dict.fromkeys(sources):
        of_it = inside.filter(pa.array(sources == source))
        for column in ("sm_mhz", "cpu_mhz", "temperature_c"):
            known = of_it.filter(of_it.column(column).is_valid())
            if known.num_rows >= _FEWEST_SAMPLES:
                every = -(-known.num_rows // _MOST_SAMPLES)
                values = np.asarray(known.column(column).to_numpy(), float)[::every]
                yield source, column, known.column("time_ns").to_numpy()[::every] / 1e9, values


# The idle share of a pipeline's ranks, from the rows, beside the bubble that theory predicts for its schedule.

_OF_SCHEDULE = ("forward", "backward")
_OUTSIDE = ("data", "optimize")


def bubble(table: pa.Table, predicted: Estimate, begin_s: float, end_s: float, microbatches: Any) -> Finding | None:
    """Of the steps within a window, in seconds from the start of the run; None where the ranks' phases are not known.

    `microbatches`: of a step, as recorded.
    """
    inside = pc.and_(
        pc.equal(table["kind"], "step"),
        pc.and_(
            pc.greater_equal(table["begin_ns"], math.floor(begin_s * 1e9)),
            pc.less_equal(table["end_ns"], math.ceil(end_s * 1e9)),
        ),
    )
    rows = table.filter(pc.and_(inside, pc.is_valid(table["rank_forward_ns"])))
    if not len(rows):
        return None
    stages = len(rows["rank_forward_ns"][0])
    idle = idle_share(rows)
    found = {"stages": stages, "microbatches": microbatches, "idle": idle.value, "predicted": predicted.value}
    evidence = {"idle_share": idle, "predicted_bubble_share": predicted}
    return Finding("pipeline-bubble", "notes", "", found, evidence)


def idle_share(rows: pa.Table) -> Estimate:
    """Time of the ranks in neither forward nor backward, over the time of the schedule: a step without data and
    optimizer, of all ranks. Transfers, waiting for neighbours and for processor cores are all in it."""
    span_ns = (numbers(rows["end_ns"]) - numbers(rows["begin_ns"]))[:, None]
    scheduled = np.maximum(span_ns - sum(_ranks(rows, name) for name in _OUTSIDE), 0)
    idle = np.clip(scheduled - sum(_ranks(rows, name) for name in _OF_SCHEDULE), 0, None)
    clock = np.concatenate([[0], np.cumsum(scheduled.sum(axis=1))])
    name = "time of ranks in neither forward nor backward / time of the schedule"
    return rate_interval(idle.sum(axis=1) / 1e9, clock[:-1], clock[1:], unit=RATIO, name=name)


def _ranks(rows: pa.Table, phase: str) -> np.ndarray:
    """(steps, ranks) in ns."""
    return lists(rows[f"rank_{phase}_ns"])[1].reshape(len(rows), -1)


# Findings on saves and on the recovery from a rank that was killed: what they show, and what they do not.

_IN_MEMORY = ("tmpfs", "ramfs")
_FEWEST = 2


def of_saves(run: Run, verdict: Verdict) -> Iterable[Finding]:
    """Nothing of a run that neither saved nor was to lose a rank."""
    known, kill = run.sections.checkpoints, run.spec.protocol.kill
    if kill is not None and (known is None or known.recovery is None) and run.is_finished:
        steps = int((run.steps.kind == "step").sum())
        yield Finding("kill-not-reached", "disqualifies", "", {"at_step": kill.at_step, "steps": steps})
    if known is None:
        return
    if known.filesystem in _IN_MEMORY:
        yield Finding("saves-in-memory", "warns", known.filesystem)
    yield from _in_window(run, known, verdict)
    if known.recovery is not None:
        down_s = (known.recovery.loaded_ns - known.recovery.killed_ns) / 1e9
        numbers = {"rank": known.recovery.rank, "at_step": known.recovery.at_step, "seconds": down_s,
                   "from_step": known.recovery.from_step, "restarts": known.recovery.restarts}  # fmt: skip
        yield Finding("rank-killed", "notes", "", numbers)
        yield from _resumed("recovery", known.recovery.resumed, "disqualifies")
    if known.restore is not None:
        yield from _resumed("restore", known.restore.resumed, "warns")


def _in_window(run: Run, known: Checkpoints, verdict: Verdict) -> Iterator[Finding]:
    """A sustained rate holds saves only where its window does."""
    steps = run.steps
    paid_s = steps.end_ns[np.nan_to_num(steps.phases_ns["checkpoint"]) > 0] / 1e9
    inside = int(((paid_s > verdict.begin_s) & (paid_s <= verdict.end_s)).sum())
    if inside < _FEWEST:
        yield Finding("few-saves", "warns", "", {"saves": inside, "every_steps": known.every_steps})


def _resumed(subject: str, resumed: Resumed, severity: Literal["warns", "disqualifies"]) -> Iterator[Finding]:
    """`severity`: of steps that nobody compared. Losses that differ always disqualify."""
    numbers = {"steps": resumed.steps, "worst": resumed.worst, "tolerance": resumed.tolerance}
    if resumed.unknown:
        numbers["unknown"] = resumed.unknown
    if resumed.is_equal is None:
        yield Finding("resumed-not-compared", severity, subject)
    elif resumed.is_equal:
        yield Finding("resumed-equal", "notes", subject, numbers)
    else:
        yield Finding("resumed-differs", "disqualifies", subject, numbers)
