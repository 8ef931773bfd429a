import time

import numpy as np
import pytest

from twinlens.stats.estimator.dependence import autocorrelation, autocorrelation_time
from twinlens.stats.estimator.interval import mean_interval, t_quantile
from twinlens.stats.estimator.rate import rate_interval
from twinlens.units import SECONDS, TOKENS_PER_S


def first_order(rng: np.random.Generator, n: int, phi: float) -> np.ndarray:
    """A stationary first-order series [n] of unit variance."""
    steps = rng.normal(size=n)
    series = np.empty(n)
    series[0] = steps[0]
    for i in range(1, n):
        series[i] = phi * series[i - 1] + np.sqrt(1 - phi**2) * steps[i]
    return series


def rows(durations_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Begin and end in ns of rows that follow one another."""
    end = np.cumsum(np.rint(durations_s * 1e9).astype(np.int64))
    return np.concatenate(([0], end[:-1])), end


def test_the_autocorrelation_of_a_short_series_is_what_the_hand_finds():
    # Centred: -1.5 -0.5 0.5 1.5; products at lag 1: 0.75 - 0.25 + 0.75 = 1.25, of 5 at lag 0.
    assert autocorrelation([1, 2, 3, 4]) == pytest.approx([1, 0.25, -0.3, -0.45])


def test_the_autocorrelation_time_of_a_first_order_series_is_its_textbook_value():
    for phi in (0.0, 0.5, 0.8):
        series = first_order(np.random.default_rng(0), 20_000, phi)
        assert autocorrelation_time(series) == pytest.approx((1 + phi) / (1 - phi), rel=0.15)


def test_a_constant_or_alternating_series_is_worth_its_length_and_no_more():
    assert autocorrelation_time(np.full(100, 3.3)) == 1
    assert autocorrelation_time(np.tile([1.0, 2.0], 50)) == 1
    assert autocorrelation_time([7.0]) == 1


def test_the_t_factor_is_the_tables():
    assert t_quantile(0.95, 4) == pytest.approx(2.7764, abs=1e-4)
    assert t_quantile(0.99, 10) == pytest.approx(3.1693, abs=1e-4)


def test_a_mean_of_correlated_values_admits_how_few_they_are_worth():
    estimate = mean_interval(10 + first_order(np.random.default_rng(1), 9000, 0.8), unit=SECONDS)
    assert 100 <= estimate.n <= 200
    assert "independent groups of 9000 values" in estimate.method
    # Of the long-run variance (1 + 0.8) / (1 - 0.8) = 9: 1.97 · 3 / √9000.
    assert (estimate.high - estimate.low) / 2 == pytest.approx(0.0623, rel=0.3)


@pytest.mark.parametrize(("phi", "n"), [(0.0, 200), (0.7, 1000), (0.8, 300), (0.9, 400)])
def test_a_rate_and_a_mean_of_the_same_rows_have_an_interval_together(phi, n):
    """Rows of AR 0.7, 1,000 of them: the rate had an interval, and the mean none in all of 60 runs."""
    given = 0
    for seed in range(60):
        took_s = np.exp(0.1 * first_order(np.random.default_rng([seed, n]), n, phi))
        rate, mean = rate_interval(np.ones(n), *rows(took_s), unit=TOKENS_PER_S), mean_interval(took_s, unit=SECONDS)
        assert (rate.low is None) == (mean.low is None)
        given += mean.low is not None
        assert mean.value == pytest.approx(1 / rate.value)
    assert given >= 50


def test_a_mean_of_a_wandering_series_has_no_interval():
    estimate = mean_interval(np.linspace(1.0, 2.0, 200), unit=SECONDS)
    assert estimate.value == pytest.approx(1.5)
    assert (estimate.low, estimate.high, estimate.level) == (None, None, None)
    assert estimate.no_interval


def test_a_mean_of_nothing_is_absent():
    assert mean_interval([], unit=SECONDS).value is None


def test_mean_intervals_cover_the_truth_for_independent_and_correlated_values():
    """Measured with 500 series each: 0.97 (phi 0), 0.97 (phi 0.5), 0.98 (phi 0.8)."""
    rng = np.random.default_rng(2)
    for phi, n in ((0.0, 200), (0.5, 1200), (0.8, 8000)):
        found = [mean_interval(first_order(rng, n, phi), unit=SECONDS) for _ in range(300)]
        stated = [e for e in found if e.level is not None]
        assert len(stated) > 250
        assert sum(e.low <= 0 <= e.high for e in stated) / len(stated) >= 0.91


def test_a_rate_counts_the_gaps_between_rows():
    begin = np.array([0, 1, 3, 4]) * 10**9
    estimate = rate_interval([100] * 4, begin, begin + 10**9, unit=TOKENS_PER_S)
    assert estimate.value == 80.0
    assert estimate.level is None


def test_a_rate_of_overlapping_rows_is_their_work_over_the_shared_wall():
    begin = np.array([0, 0, 1]) * 10**9
    end = np.array([3, 2, 4]) * 10**9
    assert rate_interval([10, 20, 10], begin, end, unit=TOKENS_PER_S).value == 10.0


def test_a_stall_stays_in_the_rate_and_widens_its_interval():
    durations = np.random.default_rng(3).normal(1, 0.02, 300)
    calm = rate_interval(np.ones(300), *rows(durations), unit=TOKENS_PER_S)
    durations[150] = 30.0
    stalled = rate_interval(np.ones(300), *rows(durations), unit=TOKENS_PER_S)
    assert stalled.value == pytest.approx(300 / durations.sum(), rel=1e-6)
    assert stalled.value < 0.93 * calm.value
    assert stalled.high - stalled.low > 3 * (calm.high - calm.low)


def test_rate_intervals_cover_the_truth():
    """Measured with 400 series each: 0.97 (phi 0, 200 rows), 0.98 (phi 0.5), 0.97 (phi 0.8)."""
    rng = np.random.default_rng(4)
    for n, phi in ((200, 0.0), (200, 0.5), (200, 0.8)):
        found = []
        for _ in range(200):
            durations = np.maximum(1 + 0.1 * first_order(rng, n, phi), 0.05)
            found.append(rate_interval(np.ones(n), *rows(durations), unit=TOKENS_PER_S))
        stated = [e for e in found if e.level is not None]
        assert len(stated) > 150
        assert sum(e.low <= 1 <= e.high for e in stated) / len(stated) >= 0.9


def test_rates_of_a_machine_with_slow_phases_cover_the_truth():
    """Rows twice as long for phases of 50 rows: 86 % hold with the plain count, 91 % with its doubt."""
    rng, held, stated = np.random.default_rng(6), 0, 0
    for _ in range(200):
        ends = np.cumsum(rng.exponential(np.tile([50.0, 117.0], 40))) - rng.uniform(0, 2000)
        slow = (np.searchsorted(ends, np.arange(1000)) % 2 == 0).astype(float)
        durations = rng.gamma(4, 0.25, 1000) * (1 + slow)
        found = rate_interval(np.ones(1000), *rows(durations), unit=TOKENS_PER_S)
        stated += found.level is not None
        held += found.level is not None and found.low <= 1 / (1 + 50 / 167) <= found.high
    assert stated > 180
    assert held / stated > 0.9


def test_a_run_too_short_to_show_its_dependence_has_no_interval_of_its_own():
    calm = np.random.default_rng(1).normal(1, 0.01, 99)
    assert "in fewer than 100 rows" in rate_interval(np.ones(99), *rows(calm), unit=TOKENS_PER_S).lacks
    assert "there are 99" in mean_interval(calm, unit=SECONDS).lacks
    assert mean_interval(np.r_[calm, 1.0], unit=SECONDS).level == 0.95


def test_no_bound_of_a_rate_is_below_zero_however_uneven_its_rows_are():
    work = np.zeros(150)
    work[[3, 70]] = 1e6
    begin = np.arange(150) * 10**9
    rate_estimate = rate_interval(work, begin, begin + 10**9, unit=TOKENS_PER_S)
    assert rate_estimate.low is None or 0 < rate_estimate.low < rate_estimate.value < rate_estimate.high


def test_a_mean_of_rows_of_which_few_are_slow_reaches_further_up():
    stalls = np.where(np.arange(200) % 50 == 7, 10.0, 1.0)
    mean = mean_interval(stalls, unit=SECONDS)
    assert mean.high - mean.value > 1.2 * (mean.value - mean.low)


def test_a_rate_is_the_same_every_time_it_is_asked_for():
    begin, end = rows(np.random.default_rng(5).gamma(9.0, 0.1, 500))
    first = rate_interval(np.ones(500), begin, end, unit=TOKENS_PER_S)
    assert first == rate_interval(np.ones(500), begin, end, unit=TOKENS_PER_S)


def test_a_rate_without_rows_or_time_is_absent_not_zero_or_infinite():
    assert rate_interval([], [], [], unit=TOKENS_PER_S).value is None
    assert rate_interval([5], [10], [10], unit=TOKENS_PER_S).value is None


def test_no_work_in_real_time_is_a_rate_of_zero():
    begin = np.arange(50) * 10**9
    estimate = rate_interval(np.zeros(50), begin, begin + 10**9, unit=TOKENS_PER_S)
    assert (estimate.value, estimate.low, estimate.high) == (0.0, 0.0, 0.0)


def test_rows_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="equal numbers"):
        rate_interval([1, 2], [0], [1], unit=TOKENS_PER_S)
    with pytest.raises(ValueError, match="before it begins"):
        rate_interval([1], [5], [4], unit=TOKENS_PER_S)
    with pytest.raises(ValueError, match="from 0 up"):
        rate_interval([-1], [0], [4], unit=TOKENS_PER_S)


def test_a_hundred_thousand_rows_take_under_a_tenth_of_a_second():
    begin, end = rows(np.random.default_rng(6).gamma(100, 1e-4, 100_000))
    clock = time.process_time()
    rate_interval(np.full(begin.size, 512), begin, end, unit=TOKENS_PER_S)
    assert time.process_time() - clock < 5  # 3 ms alone; a hang, not a speed, is what this would catch
