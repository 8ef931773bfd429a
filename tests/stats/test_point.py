"""The state of a point from all its repeats together."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from benchmarks.coverage.states import RATE, SHAPES, changed, noise, point_of

from twinlens.stats.estimator.repeats import widened
from twinlens.stats.steady.segment import segment
from twinlens.stats.summary.group import Group

POINTS = 40


def valid(runs: int, rows: int, cv: float, phi: float = 0.0) -> int:
    made = (
        [noise(np.random.default_rng([seed, k, rows]), rows, cv, phi) for k in range(runs)] for seed in range(POINTS)
    )
    return sum(point_of(rows_of).validity == "valid" for rows_of in made)


@pytest.mark.parametrize(("rows", "cv", "phi"), [(22, 0.03, 0.0), (70, 0.03, 0.0), (200, 0.1, 0.0), (70, 0.03, 0.8)])
def test_more_repeats_never_make_a_stationary_machine_less_likely_to_be_valid(rows: int, cv: float, phi: float) -> None:
    """100 points each: 66, 94, 100 % of 1, 3, 8 runs of 22 rows (66, 15, 0 % before); 74, 92, 97 % at 0.8."""
    counts = [valid(runs, rows, cv, phi) for runs in (1, 3, 6)]
    assert counts[1] >= counts[0] - 2, "two of forty, by chance"
    assert counts[2] >= counts[1] - 2
    assert counts[2] >= 0.9 * POINTS


def test_longer_runs_never_make_it_less_likely() -> None:
    counts = [valid(1, rows, 0.05) for rows in (30, 100, 400, 1600)]
    assert all(later >= earlier - 2 for earlier, later in itertools.pairwise(counts))


def test_a_tenth_that_all_repeats_share_is_never_valid() -> None:
    for seed in range(POINTS):
        rows = [noise(np.random.default_rng([seed, k]), 70, 0.1) for k in range(3)]
        assert point_of(changed(rows, SHAPES["step half way"], 0.1)).validity != "valid"


def test_a_twentieth_that_all_repeats_share_is_no_oftener_valid_than_where_each_run_has_to_be() -> None:
    """4 of these 40 points were valid: a run that had slowed down was refuted, its change before its window unseen."""
    points = []
    for seed in range(POINTS):
        rng = np.random.default_rng([seed, 200, 3, 9])
        points.append(point_of(changed([noise(rng, 200, 0.05, 0.5) for _ in range(3)], SHAPES["step half way"], 0.05)))
    by_each = sum(all(run.validity == "valid" for run in point.runs) for point in points)
    assert sum(point.validity == "valid" for point in points) <= by_each


def test_a_run_that_slowed_down_keeps_the_change_that_its_window_leaves_out() -> None:
    level = np.tile([0.99, 1.01], 60)
    trend = segment(np.concatenate([level, 1.1 * level])).trend
    assert trend is not None
    assert trend.change == pytest.approx(0, abs=0.01), "after the change"
    assert trend.later == pytest.approx(np.log(1.1), abs=0.01)


@cache
def calm_point(seed: int) -> tuple[list[np.ndarray], Group]:
    """Three runs of 22 rows without a change, and their point."""
    rows = [noise(np.random.default_rng([seed, k]), 22, 0.15) for k in range(3)]
    return rows, point_of(rows)


@pytest.mark.parametrize("shape", ["drift", "step at three quarters", "step at four fifths"])
def test_a_provisional_point_holds_the_level_after_a_change_that_was_not_seen(shape: str) -> None:
    """Half of what could hide held a step at four fifths in 29 to 74 %, two thirds of it in 89 to 92 %."""
    held = []
    for seed in range(3 * POINTS):
        rows, calm = calm_point(seed)
        size = 0.95 * (calm.verdict.hidden or 0.0)
        found = point_of(changed(rows, SHAPES[shape], size))
        if calm.validity == found.validity == "provisional":
            rate = found.metrics[RATE]
            held.append(rate.low <= 1 / (1 + size) <= rate.high)
    assert len(held) >= 10
    assert np.mean(held) >= 0.9


def test_bounds_are_further_out_by_seven_tenths_of_what_could_hide_and_those_of_the_inverse_are_inverse() -> None:
    rate = point_of([noise(np.random.default_rng(k), 300, 0.02) for k in range(3)]).metrics[RATE]
    wide = widened(rate, 0.3)
    assert wide.hidden == pytest.approx(0.3)
    assert rate.value / wide.low >= 1.21
    assert rate.low > wide.low
    assert rate.high < wide.high
