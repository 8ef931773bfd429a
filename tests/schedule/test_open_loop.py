"""When requests of an open loop are due: by hand where there is no chance in it, by their law where there is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from twinlens.record.request import Request
from twinlens.schedule.open_loop import OpenLoop, arrival_times_ns
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.workload.arrival import Arrival, Closed, Constant, Gamma, Lockstep, Offline, Poisson, Ramp

SURE = 1e-4  # a test on a fixed seed either always passes or never; this guards the choice of the seed


def gaps_s(arrival: Arrival, rate: float, seconds: float, seed: int = 1) -> np.ndarray:
    return np.diff(arrival_times_ns(arrival, rate, seconds, seed)) / 1e9


def test_constant_arrivals_are_exact_even_after_a_million() -> None:
    times = arrival_times_ns(Constant(), 3000.0, 1000.0, seed=0)
    assert len(times) == 3_000_000
    # k / 3000 s in whole nanoseconds, by integers: errors of relative sleeps would have added up by now.
    exact = (np.arange(3_000_000) * 10**9 + 1500) // 3000
    assert np.abs(times - exact).max() <= 1


@pytest.mark.parametrize(("rate", "seconds", "count"), [(4.0, 1.0, 4), (3.0, 1.0, 3), (30.0, 0.1, 3), (0.4, 1.0, 1)])
def test_constant_arrivals_begin_at_once_and_end_before_the_duration(rate: float, seconds: float, count: int) -> None:
    times = arrival_times_ns(Constant(), rate, seconds, seed=0)
    assert len(times) == count
    assert times[0] == 0
    assert times[-1] < seconds * 1e9


@pytest.mark.parametrize("rate", [0.5, 40.0, 3000.0])
def test_poisson_gaps_follow_the_exponential_law(rate: float) -> None:
    gaps = gaps_s(Poisson(), rate, 20_000 / rate)
    assert stats.kstest(gaps, stats.expon(scale=1 / rate).cdf).pvalue > SURE
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("cv", [0.25, 1.0, 2.0, 4.0])
def test_gamma_gaps_follow_the_gamma_law_with_the_cv_asked_for(cv: float) -> None:
    gaps = gaps_s(Gamma(cv=cv), 40.0, 500.0)
    law = stats.gamma(1 / cv**2, scale=cv**2 / 40.0)
    # The shortest gaps of a bursty law are far below a nanosecond, where stored times are whole: compare above it.
    assert stats.kstest(gaps[gaps > 1e-6], lambda x: (law.cdf(x) - law.cdf(1e-6)) / law.sf(1e-6)).pvalue > SURE
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05)


def test_burstiness_is_vllms_word_for_the_shape_of_the_gamma_law() -> None:
    assert Gamma(cv=2.0).burstiness == 0.25
    assert Gamma(cv=1.0).burstiness == 1.0


def test_counts_of_poisson_arrivals_are_as_dispersed_as_chance_makes_them() -> None:
    counts = np.array([len(arrival_times_ns(Poisson(), 40.0, 10.0, seed)) for seed in range(400)])
    assert counts.mean() == pytest.approx(400, abs=4)
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.25)  # rescaled gaps would give 0
    within = np.bincount((arrival_times_ns(Poisson(), 40.0, 1000.0, 7) // 10**9).astype(int))
    assert within.var() / within.mean() == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("cv", [0.2, 1.0, 4.0])
def test_the_rate_is_right_from_the_first_second_however_bursty(cv: float) -> None:
    counts = [len(arrival_times_ns(Gamma(cv=cv), 10.0, 2.0, seed)) for seed in range(4000)]
    # A renewal process that began with a whole gap would be off by (cv² - 1) / 2: 7.5 arrivals at cv 4.
    assert np.mean(counts) == pytest.approx(20, abs=5 * np.std(counts) / np.sqrt(4000))


def test_a_ramp_without_chance_is_the_inverse_of_its_cumulative_intensity() -> None:
    # From 0 to 4 per second over 2 s: t² arrivals up to t, so the k-th comes at √k.
    times = arrival_times_ns(Ramp(from_per_s=0.0, to_per_s=4.0, gaps="constant"), None, 2.0, seed=0)
    assert times.tolist() == [0, 1_000_000_000, 1_414_213_562, 1_732_050_808]


def test_a_ramp_may_fall_or_be_flat() -> None:
    # From 4 to 1 per second over 2 s: 4t - 0.75t² arrivals up to t, so the k-th comes at (4 - √(16 - 3k)) / 1.5.
    falling = arrival_times_ns(Ramp(from_per_s=4.0, to_per_s=1.0, gaps="constant"), None, 2.0, seed=0)
    assert falling.tolist() == [0, 262_965_816, 558_481_560, 902_832_459, 1_333_333_333]
    flat = arrival_times_ns(Ramp(from_per_s=4.0, to_per_s=4.0, gaps="constant"), None, 1.0, seed=0)
    assert flat.tolist() == [0, 250_000_000, 500_000_000, 750_000_000]


def test_a_poisson_ramp_is_poisson_once_its_time_is_straightened() -> None:
    times = arrival_times_ns(Ramp(from_per_s=10.0, to_per_s=400.0), None, 50.0, seed=3) / 1e9
    unit = 10.0 * times + (400.0 - 10.0) / 50.0 * times**2 / 2
    assert stats.kstest(np.diff(unit), stats.expon.cdf).pvalue > SURE
    assert len(times) == pytest.approx(205 * 50, abs=5 * np.sqrt(205 * 50))


def test_offline_arrivals_are_all_due_at_once() -> None:
    assert arrival_times_ns(Offline(requests=5), None, 60.0, seed=0).tolist() == [0] * 5


@pytest.mark.parametrize("arrival", [Closed(), Lockstep(), Poisson()])
def test_arrivals_that_are_not_settled_beforehand_are_refused(arrival: Arrival) -> None:
    with pytest.raises(ValueError, match="not settled beforehand"):
        arrival_times_ns(arrival, None, 1.0, seed=0)


def test_an_open_loop_hands_out_what_is_due_and_waits_for_nothing() -> None:
    asks = [ScheduledRequest(i, i, at_ns, 8, 4, (0, i)) for i, at_ns in enumerate((0, 10, 10, 30))]
    loop = OpenLoop(asks)
    assert loop.next_due_ns() == 0
    assert loop.due(0) == (asks[0],)
    assert loop.due(9) == ()
    assert loop.next_due_ns() == 10
    assert loop.due(29) == (asks[1], asks[2])
    loop.done(Request(0, 0, 0, (), (), 29, 8, 4))
    assert loop.next_due_ns() == 30
    assert loop.due(10**9) == (asks[3],)
    assert loop.next_due_ns() is None


def test_an_empty_open_loop_is_over() -> None:
    assert OpenLoop([]).next_due_ns() is None
