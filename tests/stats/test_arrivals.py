"""Points that met the same arrivals are compared on these: by hand, by simulation, and not where they differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.coverage.arrivals import compared, holding, medians, pieces, ttft_s

from served_material import served_run
from twinlens.comparison.effect import effects
from twinlens.comparison.side import Side
from twinlens.reporting.wording.comparison import effect_words
from twinlens.stats.paired.arrivals import STRETCHES, choose, of_arrivals, over_stretches, shared_arrivals
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


def waits(more: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Seven stretches of 60 requests: eight that wait 1 s, eight that wait 0.2 s; those that wait take so much `more`
    in the second."""
    is_long = (np.arange(7 * 60) // 8) % 2 == 0
    return np.where(is_long, 1.0, 0.2), np.where(is_long, 1.0 + np.repeat(more, 60), 0.2)


def test_the_difference_is_that_of_the_median_stretch_and_its_bounds_are_a_tenth_beyond_the_outermost() -> None:
    found = over_stretches([waits([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])], 0.99)
    assert found is not None
    assert (found.stretches, found.arrivals) == (7, 420)
    bounds = (found.difference.value, found.difference.low, found.difference.high)
    assert bounds == pytest.approx((0.4, 0.1 - 0.06, 0.7 + 0.06))
    tenth = (1.7 / 1.1) ** 0.1
    assert (found.ratio.value, found.ratio.low, found.ratio.high) == pytest.approx((1.4, 1.1 / tenth, 1.7 * tenth))


def test_one_stretch_that_goes_the_other_way_leaves_it_undecided() -> None:
    found = over_stretches([waits([-0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])], 0.99)
    assert found is not None
    assert found.difference.low == pytest.approx(-0.1 - 0.08)


def test_too_few_requests_or_stretches_that_mostly_failed_say_nothing() -> None:
    a = np.ones(7 * 60)
    assert over_stretches([(a[1:], a[1:])], 0.99) is None
    lost = np.where(np.arange(a.size) < 5, np.inf, 1.0)
    assert over_stretches([(a, lost)], 0.99) is None
    assert over_stretches([(a, lost)], 0.5) is not None, "half of a stretch answered"


def test_a_run_that_is_one_swing_of_its_queue_says_nothing() -> None:
    """Waits that grow from the first request to the last: seven stretches agree, and are one."""
    a = np.linspace(0.1, 5.0, 7 * 60)
    assert over_stretches([(a, 2 * a)], 0.5) is None
    mixed = np.random.default_rng(1).permutation(a)
    assert over_stretches([(mixed, 2 * mixed)], 0.5) is not None


def test_repeats_that_differ_among_each_other_widen_the_interval_to_their_own_medians() -> None:
    ones = np.ones(200)
    found = over_stretches([(ones, ones + 0.1), (ones, ones + 0.2), (ones, ones + 0.6)], 0.9)
    assert found is not None
    assert (found.difference.low, found.difference.high) == pytest.approx((0.1 - 0.05, 0.6 + 0.05))


@pytest.mark.parametrize(
    ("load", "names", "q"), [(0.3, ("dynamic 8", "continuous 8"), 0.99), (0.4, ("static 8", "static 8"), 0.9)]
)
def test_a_few_simulations_hold_the_truth_and_equal_policies_are_rarely_told_apart(
    load: float, names: tuple[str, str], q: float
) -> None:
    a, b = (ttft_s(name, load, seed, 60_000) for seed, name in enumerate(names))
    all_pairs = pieces(b, a, 480, 1, 120)
    found, whole = compared(all_pairs, q), medians(all_pairs, q)
    assert holding(found, np.full(whole.size, np.median(whole))).mean() >= 0.93
    given = [each for each in found if each is not None]
    assert len(given) >= 0.7 * len(all_pairs)
    apart = np.mean([not each.difference.low <= 0 <= each.difference.high for each in given])
    assert apart <= 0.05 if names[0] == names[1] else apart >= 0.95


def test_at_nine_tenths_of_capacity_the_interval_holds_or_is_not_given() -> None:
    """Signs alone held 90 to 93 % of such comparisons, and told equal policies nearer to capacity apart in a fifth."""
    a, b = (ttft_s(name, 0.75, seed, 100_000) for seed, name in enumerate(("continuous 8", "continuous 16")))
    all_pairs = pieces(b, a, 480, 1, 200)
    whole = medians(all_pairs, 0.99)
    assert holding(compared(all_pairs, 0.99), np.full(whole.size, np.median(whole))).mean() >= 0.93
    same = pieces(*(ttft_s("continuous 8", 0.8, seed, 100_000) for seed in (1, 2)), 480, 1, 200)
    near = compared(same, 0.99)
    assert sum(each is not None for each in near) < 0.6 * len(near), "waits of most runs are one swing of the queue"
    assert (~holding(near, np.zeros(len(near)))).sum() <= 0.06 * len(near)


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
