"""Points that met the same arrivals are compared on these: by hand, by simulation, and not where they differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.coverage.arrivals import compared, ttft_s
from served_material import served_run

from twinlens.comparison.effect import effects
from twinlens.comparison.side import Side
from twinlens.reporting.wording.effect import effect_words
from twinlens.stats.paired.arrivals import STRETCHES, of_arrivals, over_stretches, shared_arrivals
from twinlens.stats.paired.policy_choice import choose
from twinlens.stats.summary.group import Group, group

STATIC = {"admission": "static", "batch": 8}
CONTINUOUS = {"admission": "continuous", "in_flight": 16}
Runs = dict[str, object]


def points(parent: Path, rate: float, *asked: tuple[dict, float], repeats: int = 1) -> tuple[list[Group], Runs]:
    pairs = [
        served_run(parent, rate, point=point, late_s=late_s, repeat=repeat)
        for point, late_s in asked
        for repeat in range(repeats)
    ]
    return list(group(summary for _, summary in pairs)), {run.id: run for run, _ in pairs}


def test_the_difference_is_that_of_the_median_stretch_and_its_bounds_are_the_outermost() -> None:
    a = np.ones(7 * 60)
    more = np.repeat([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], 60)
    found = over_stretches([(a, a + more)], 0.99)
    assert found is not None
    assert (found.stretches, found.arrivals) == (7, 420)
    bounds = (found.difference.value, found.difference.low, found.difference.high)
    assert bounds == pytest.approx((0.4, 0.1, 0.7))
    assert (found.ratio.value, found.ratio.low, found.ratio.high) == pytest.approx((1.4, 1.1, 1.7))


def test_one_stretch_that_goes_the_other_way_leaves_it_undecided() -> None:
    a = np.ones(7 * 60)
    more = np.repeat([-0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], 60)
    found = over_stretches([(a, a + more)], 0.5)
    assert found is not None
    assert found.difference.low == pytest.approx(-0.1)


def test_too_few_requests_or_stretches_that_mostly_failed_say_nothing() -> None:
    a = np.ones(7 * 60)
    assert over_stretches([(a[1:], a[1:])], 0.99) is None
    lost = np.where(np.arange(a.size) < 5, np.inf, 1.0)
    assert over_stretches([(a, lost)], 0.99) is None
    assert over_stretches([(a, lost)], 0.5) is not None, "half of a stretch answered"


def test_repeats_that_differ_among_each_other_widen_the_interval_to_their_own_medians() -> None:
    ones = np.ones(200)
    found = over_stretches([(ones, ones + 0.1), (ones, ones + 0.2), (ones, ones + 0.6)], 0.9)
    assert found is not None
    assert (found.difference.low, found.difference.high) == pytest.approx((0.1, 0.6))


@pytest.mark.parametrize(
    ("load", "names", "q"), [(0.3, ("dynamic 8", "continuous 8"), 0.99), (0.4, ("static 8", "static 8"), 0.9)]
)
def test_a_few_simulations_hold_the_truth_and_equal_policies_are_rarely_told_apart(
    load: float, names: tuple[str, str], q: float
) -> None:
    a, b = (ttft_s(name, load, seed, 60_000) for seed, name in enumerate(names))
    found = compared(b, a, q, 480, 1, 120)
    assert len(found) == 120
    truth = np.median([each.difference.value for each in found])
    assert np.mean([each.difference.low <= truth <= each.difference.high for each in found]) >= 0.9
    apart = np.mean([not each.difference.low <= 0 <= each.difference.high for each in found])
    assert apart <= 0.1 if names[0] == names[1] else apart >= 0.95


def test_policies_that_met_the_same_480_arrivals_are_chosen_by_p99(tmp_path: Path) -> None:
    groups, runs = points(tmp_path, 8.0, (STATIC, 0.4), (CONTINUOUS, 0.0001))
    alone, together = (choose(groups, "ttft_s_p99", known) for known in ({}, runs))
    assert [each.is_told_apart for each in alone.differences] == [False], (
        "two intervals of p99, or none, decide nothing"
    )
    (found,) = together.differences
    assert together.best is not None
    assert together.best.point["admission"] == "continuous"
    assert found.is_told_apart
    assert found.more_s == pytest.approx(0.4, rel=0.01)
    assert found.stretches == STRETCHES


def test_other_arrivals_are_never_paired(tmp_path: Path) -> None:
    groups, runs = points(tmp_path, 8.0, (STATIC, 0.4), (CONTINUOUS, 0.0001))
    shared = shared_arrivals(*groups, runs)
    assert shared is not None
    assert of_arrivals(shared, "ttft_s_p99") is not None
    assert of_arrivals(shared, "goodput_per_s") is None
    assert of_arrivals(shared, "ttft_s_p99", level=0.999) is None, "seven signs hold no more than 98.4 %"
    assert shared_arrivals(*groups, {}) is None
    moved, mine = points(tmp_path / "b", 8.5, (CONTINUOUS, 0.0001))
    assert shared_arrivals(groups[0], moved[0], runs | mine) is None


def test_two_sides_of_a_comparison_are_paired_by_arrival(tmp_path: Path) -> None:
    sides = []
    for name, late_s in (("a", 0.0001), ("b", 0.4)):
        run, summary = served_run(tmp_path / name, 8.0, late_s=late_s, point=CONTINUOUS)
        (only,) = group([summary])
        sides.append(Side(name, only, (run,)))
    first = effects(*sides, {})[0]
    assert (first.metric, first.way, first.apart) == ("ttft_s_p99", "arrivals", True)
    assert first.difference.value == pytest.approx(0.4, rel=0.01)
    assert "on the same arrivals" in effect_words(first)
