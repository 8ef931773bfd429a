import math
import time

import numpy as np
import pytest

from twinlens.stats.estimator.dependence import careful_time
from twinlens.stats.estimator.quantile import interval_ranks, needed_for_quantile, quantile
from twinlens.stats.estimator.rate import Series
from twinlens.units import SECONDS


def binomial_cdf(k: int, n: int, q: float) -> float:
    return math.fsum(math.comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(k + 1))


def test_the_median_of_one_to_a_hundred_lies_between_the_fortieth_and_the_sixty_first():
    estimate = quantile(range(1, 101), 0.5, unit=SECONDS)
    assert (estimate.value, estimate.low, estimate.high) == (50.5, 40.0, 61.0)
    assert (estimate.n, estimate.level, estimate.unit) == (100, 0.95, SECONDS)


def test_the_point_is_a_seen_value_or_the_middle_of_two_neighbours():
    values = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0]
    assert quantile(values, 0.5, unit=SECONDS).value == 45.0
    assert quantile(values, 0.45, unit=SECONDS, level=0.8).value == 40.0


def test_the_point_agrees_with_numpys_definition_of_the_same_name():
    values = np.random.default_rng(0).lognormal(size=997)
    for q in (0.05, 0.5, 0.9, 0.95):
        expected = np.quantile(values, q, method="averaged_inverted_cdf")
        assert quantile(values, q, unit=SECONDS).value == pytest.approx(expected, rel=1e-12)


def test_a_sketch_holds_both_ends_and_the_tails_as_closely_as_the_middle():
    values = np.arange(1.0, 10_001.0)
    ranks, kept = Series(values).sketch
    assert ranks == tuple(kept) == tuple(sorted(set(ranks)))
    assert (ranks[0], ranks[-1]) == (1, 10_000)
    assert len(ranks) <= 100
    near_99 = [rank for rank in ranks if 9850 <= rank <= 9930]
    assert len(near_99) >= 3


@pytest.mark.parametrize(("n", "q"), [(6, 0.5), (20, 0.5), (73, 0.95), (400, 0.99), (500, 0.9)])
def test_ranks_are_the_tightest_that_keep_both_tails_within_bounds(n, q):
    low, high = interval_ranks(n, q, 0.95)
    assert binomial_cdf(low - 1, n, q) <= 0.025 < binomial_cdf(low, n, q)
    assert 1 - binomial_cdf(high - 1, n, q) <= 0.025 < 1 - binomial_cdf(high - 2, n, q)


def test_a_quantile_needs_enough_samples():
    assert 0.99**368 <= 0.025 < 0.99**367
    assert needed_for_quantile(0.99) == 368
    assert needed_for_quantile(0.01) == 368
    assert needed_for_quantile(0.5) == 6
    assert needed_for_quantile(0.999) == 3688


def test_a_quantile_of_too_few_values_is_absent_and_says_how_many_it_needs():
    estimate = quantile(np.arange(1.0, 101.0), 0.99, unit=SECONDS)
    assert estimate.value is None
    assert estimate.lacks == "p99 needs at least 368 values, there are 100"
    assert quantile(np.arange(368.0), 0.99, unit=SECONDS).high == 367.0


def test_no_values_at_all_is_absent_too():
    assert quantile([], 0.5, unit=SECONDS).lacks == "p50 needs at least 6 values, there are 0"


def test_values_that_are_not_finite_are_refused_not_sorted():
    with pytest.raises(ValueError, match="finite"):
        quantile([1.0, math.nan, 2.0] * 10, 0.5, unit=SECONDS)


@pytest.mark.parametrize("q", [0.0, 1.0, -1.0, 99.0])
def test_a_quantile_outside_nought_and_one_is_refused(q):
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile([1.0] * 500, q, unit=SECONDS)


def test_intervals_cover_the_truth_at_least_as_often_as_they_say():
    rng = np.random.default_rng(1)
    truth = -math.log(0.1)
    found = [quantile(rng.exponential(size=150), 0.9, unit=SECONDS) for _ in range(600)]
    covered = sum(e.low <= truth <= e.high for e in found) / len(found)
    assert 0.94 <= covered <= 0.99


def test_values_in_bursts_widen_the_interval_when_their_order_is_given():
    rng = np.random.default_rng(2)
    bursts = np.repeat(rng.exponential(size=150), 20)
    alone = quantile(bursts, 0.9, unit=SECONDS)
    ordered = quantile(bursts, 0.9, unit=SECONDS, in_time_order=True, together=20)
    assert ordered.value == alone.value
    assert ordered.low < alone.low < alone.high < ordered.high
    assert 40 <= ordered.n <= 300
    assert "in time order" in ordered.method


def test_one_stall_cannot_carry_a_p99():
    latency = np.concatenate((np.full(500, 1.0), np.full(20, 9.0), np.full(480, 1.0)))
    latency += np.random.default_rng(3).uniform(0, 0.01, latency.size)
    assert quantile(latency, 0.99, unit=SECONDS).level == 0.95
    ordered = quantile(latency, 0.99, unit=SECONDS, in_time_order=True)
    assert (ordered.low, ordered.high, ordered.level) == (None, None, None)
    assert ordered.value == quantile(latency, 0.99, unit=SECONDS).value  # it is what happened in this run
    assert "p99 needs at least 368 independent values" in ordered.lacks


def test_a_run_that_is_too_short_to_show_how_rows_cluster_has_its_median_without_an_interval():
    short = quantile(np.random.default_rng(3).exponential(size=22), 0.5, unit=SECONDS, in_time_order=True)
    assert short.value is not None
    assert short.low is None
    assert "in fewer than 100 rows it cannot be seen" in short.lacks


def test_a_million_values_are_no_burden():
    values = np.random.default_rng(4).exponential(size=1_000_000)
    took = []
    for _ in range(3):
        begin = time.perf_counter()
        quantile(values, 0.99, unit=SECONDS)
        took.append(time.perf_counter() - begin)
    assert min(took) < 2  # 20 ms alone


def test_flags_have_the_autocorrelation_time_of_their_zeros_and_ones():
    rng = np.random.default_rng(0)
    for n in (100, 40_000):  # below and above where only the first lags are looked at
        steps = np.repeat(rng.random(n // 5) > 0.8, 5)
        assert careful_time(steps) == pytest.approx(careful_time(steps.astype(float)), rel=1e-9)
        assert careful_time(steps) > 2
        assert careful_time(np.ones(n, bool)) == 1.0
