"""Findings of the test for steadiness: pure functions of a run's verdict and of telemetry beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from twinlens.record.finding import Finding
from twinlens.stats.estimator.trend import theil_sen
from twinlens.stats.steady.rule import SteadyRule
from twinlens.stats.summary.group import Verdict

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
