import itertools

import numpy as np
import pytest

from twinlens.stats.estimator.rate import period, theil_sen
from twinlens.stats.steady.levels import (
    Level,
    best_step,
    block_rows,
    differ,
    find_levels,
    first_of_last,
    first_reached,
    is_line,
    leading_outliers,
    leading_return,
    partition,
    segment_cost,
    settled_level,
    winsorised,
)


def cost(series: np.ndarray, ends: tuple[int, ...], penalty: float) -> float:
    begins = (0, *ends[:-1])
    return sum(segment_cost(series[b:e]) for b, e in zip(begins, ends, strict=True)) + penalty * len(ends)


def test_a_partition_is_the_best_of_all_partitions():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        series = rng.normal(0, 1, 12) + np.repeat(rng.normal(0, 4, 3), 4)
        found = partition(series, 3.0)
        every = (
            (*cuts, 12)
            for k in range(4)
            for cuts in itertools.combinations(range(3, 10), k)
            if all(b - a >= 3 for a, b in itertools.pairwise((*cuts, 12)))
        )
        assert cost(series, found, 3.0) == pytest.approx(min(cost(series, ends, 3.0) for ends in every))


@pytest.mark.filterwarnings("ignore:New behaviour in v1.1.5")
def test_a_partition_agrees_with_an_independent_pelt():
    ruptures = pytest.importorskip("ruptures")
    for seed in range(5):
        rng = np.random.default_rng(seed)
        series = np.repeat(rng.normal(0, 0.1, 4), (30, 10, 25, 35)) + rng.normal(0, 0.02, 100)
        expected = ruptures.Pelt(model="normal", min_size=3, jump=1).fit_predict(series, 40.0)
        assert partition(series, 40.0) == tuple(expected)


def test_a_change_of_spread_alone_is_a_change():
    rng = np.random.default_rng(0)
    series = np.concatenate((rng.normal(0, 0.01, 100), rng.normal(0, 0.1, 100)))
    assert [abs(end - 100) <= 3 for end in partition(series, 80.0)[:-1]] == [True]


def test_one_level_stays_one_level():
    assert partition(np.zeros(50), 10.0) == (50,)
    assert partition(np.arange(2.0), 10.0) == (2,)


def test_outliers_are_brought_to_the_fence_and_nothing_else_is_touched():
    series = np.tile([0.0, 1.0, 2.0, 3.0, 4.0], 20)
    spiked = series.copy()
    spiked[37] = 99.0
    calm = winsorised(spiked)
    # P10 = 0, P50 = 2, P90 = 4: the fence stands at 2 + 3 · 4.
    assert calm[37] == 14.0
    assert np.array_equal(np.delete(calm, 37), np.delete(series, 37))


def test_the_last_rows_that_fill_no_window_are_fenced_too():
    series = np.tile([0.0, 1.0, 2.0, 3.0, 4.0], 22)
    series[-1] = 1000.0
    assert winsorised(series)[-1] == 14.0


def test_only_outliers_at_the_very_start_lead():
    series = np.zeros(60) + np.random.default_rng(0).normal(0, 0.01, 60)
    series[[0, 1, 30]] = 1.0
    assert leading_outliers(series, 0.01) == 2
    assert leading_outliers(series[2:], 0.01) == 0
    assert leading_outliers(np.empty(0), 0.01) == 0


def test_blocks_grow_with_the_memory_of_rows_but_not_with_levels():
    rng = np.random.default_rng(1)
    steps = rng.normal(size=2000)
    remembering = np.zeros(2000)
    for i in range(1, 2000):
        remembering[i] = 0.6 * remembering[i - 1] + steps[i]
    assert block_rows(steps, 2000, 20) == 1
    assert block_rows(steps + np.repeat([0.0, 8.0], 1000), 2000, 20) == 1
    assert 6 <= block_rows(remembering, 2000, 20) <= 10
    assert block_rows(steps, 400, 20) == 5


def one(a: Level, b: Level) -> bool:
    return not differ(a, b, 0.001, 0.01, 3.0)


def test_walking_back_crosses_a_short_disturbance_but_not_a_long_one():
    quiet, slow = np.zeros(40), np.ones(6)
    jitter = np.random.default_rng(2).normal(0, 0.001, 86)
    levels = find_levels(np.concatenate((quiet, slow, quiet)) + jitter, 15.0)
    assert [level.begin for level in levels] == [0, 40, 46]
    assert first_of_last(levels, one, transient=6) == 0
    assert first_of_last(levels, one, transient=5) == 2


def levels_of(*sizes_and_means: tuple[int, float]) -> tuple[Level, ...]:
    ends = np.cumsum([size for size, _ in sizes_and_means])
    return tuple(Level(int(e) - s, int(e), m) for e, (s, m) in zip(ends, sizes_and_means, strict=True))


@pytest.mark.parametrize(
    ("sizes_and_means", "settled", "reached"),
    [
        (((20, 0.5), (80, 0.0)), 0.0, 1),  # a warm-up
        (((10, 0.9), (10, 0.5), (10, 0.6), (70, 0.0)), 0.0, 3),  # one of several levels, not all of them falling
        (((40, 0.0), (10, 1.0), (50, 0.0)), 0.0, 0),  # a disturbance
        (((20, 0.5), (30, 0.0), (10, 1.0), (40, 0.0)), 0.0, 1),  # both
        (((40, 0.02), (10, 1.0), (50, 0.0)), 0.0, 0),  # a disturbance between levels that differ a little
        (((80, 0.0), (20, 0.3)), 0.0, 0),  # a slow end
        (((20, 0.3), (60, 0.0), (20, 0.3)), 0.0, 0),  # a slow start that comes back is no warm-up
        (((40, 0.0), (60, 0.2)), 0.2, 1),  # a slowdown
        (((30, 0.0), (10, 0.9), (60, 0.2)), 0.2, 1),  # ... with a disturbance
        (((20, 0.0), (60, 0.5), (20, 0.0)), 0.0, 0),  # disturbed for most of the run
    ],
)
def test_the_window_begins_where_the_settled_level_was_first_reached(sizes_and_means, settled, reached):
    levels = levels_of(*sizes_and_means)
    home = settled_level(levels, one, 100 / 3, 5)
    assert home is not None
    assert home.mean == settled
    assert first_reached(levels, home, one, 5, 0.05) == reached


def test_a_run_that_is_nowhere_for_long_has_no_settled_level():
    assert settled_level(levels_of((25, 0.0), (25, 0.5), (25, 0.2), (25, 0.9)), one, 100 / 3, 5) is None


def test_rows_too_few_for_a_level_show_that_it_was_reached_before_a_disturbance():
    start = np.random.default_rng(4).normal(0, 0.01, 30)
    start[6:] += 1.0
    assert leading_return(start, 0.01, 0.01, 0.05) == (0, 6)
    assert leading_return(start[6:], 0.01, 0.01, 0.05) is None
    falling = np.exp(-np.arange(40) / 8) + np.random.default_rng(4).normal(0, 0.01, 40)
    assert leading_return(falling, 0.01, 0.01, 0.05) is None


@pytest.mark.parametrize("at_level", [1, 2, 4, 10, 26])
def test_one_row_at_the_level_shows_that_a_run_began_at_it(at_level):
    start = np.random.default_rng(4).normal(0, 0.02, 30)
    start[at_level:] += 0.2
    found = leading_return(start, 0.02, 0.01, 0.05)
    assert found is not None
    assert found[0] == 0
    assert 1 <= found[1] <= at_level


def test_a_level_between_a_warm_up_and_a_stall_is_the_level_reached():
    start = np.random.default_rng(4).normal(0, 0.02, 24)
    start[:8] += 0.5
    start[12:] += 1.5
    found = leading_return(start, 0.02, 0.01, 0.05)
    assert found is not None
    assert 8 <= found[0] <= 10
    assert found[0] < found[1] <= 12


def test_noise_of_a_slower_level_is_no_return():
    """A warm-up of one level, four standard errors of three rows above: 2,000 runs."""
    rng = np.random.default_rng(4)
    found = sum(leading_return(rng.normal(0.18, 0.08, 200), 0.08, 0.01, 0.05) is not None for _ in range(2000))
    assert found <= 20


def test_a_line_is_told_from_a_step():
    noise = np.random.default_rng(3).normal(0, 0.01, 200)
    line = np.linspace(0, 0.1, 200) + noise
    step = np.repeat([0.0, 0.1], 100) + noise
    assert is_line(line, find_levels(line, 15.0), 0.01)
    assert not is_line(step, find_levels(step, 15.0), 0.01)
    assert best_step(line) is None
    assert best_step(step) == 100


def test_the_slope_of_a_line_is_its_slope_whatever_one_point_does():
    series = 0.5 * np.arange(10.0)
    series[4] = 100.0
    slope, low, high = theil_sen(series, 0.95)
    assert slope == pytest.approx(0.5)
    assert low <= 0.5 <= high


def test_a_slope_interval_covers_nothing_as_often_as_it_says():
    rng = np.random.default_rng(4)
    found = [theil_sen(rng.normal(size=20), 0.95) for _ in range(1000)]
    assert 0.93 <= sum(low <= 0 <= high for _, low, high in found) / 1000 <= 0.98


def test_a_cycle_has_its_period_and_noise_has_none():
    turn = np.sin(2 * np.pi * np.arange(60) / 10)
    found = period(turn + np.random.default_rng(5).normal(0, 0.3, 60), 0.4)
    assert found is not None
    assert found[0] == 10
    assert found[1] == pytest.approx(2.0, rel=0.15)
    rng = np.random.default_rng(6)
    assert sum(period(rng.normal(size=60), 0.4) is not None for _ in range(300)) <= 9
    assert period(np.arange(5.0), 0.4) is None
