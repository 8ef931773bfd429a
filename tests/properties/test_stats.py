import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.dependence import autocorrelation_time
from twinlens.stats.estimator.interval import mean_interval
from twinlens.stats.estimator.quantile import needed_for_quantile, quantile
from twinlens.stats.estimator.rate import rate_interval
from twinlens.stats.estimator.ratio import ratio, ratio_of_runs
from twinlens.stats.estimator.repeats import over_runs
from twinlens.stats.steady.levels import SteadyRule
from twinlens.stats.steady.segment import peak_rate, retention, segment

numbers = st.floats(-1e9, 1e9, allow_nan=False, width=64)
positive = st.floats(1e-9, 1e9, allow_nan=False, width=64)
shares = st.floats(0.02, 0.98)


def series(elements: st.SearchStrategy[float], least: int, most: int = 300) -> st.SearchStrategy[np.ndarray]:
    return st.integers(least, most).flatmap(lambda n: arrays(np.float64, n, elements=elements))


def holds(estimate: Estimate) -> bool:
    """Whether an interval, if there is one, contains the value."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return True
    return estimate.low <= estimate.value <= estimate.high


@given(series(numbers, 0), shares, st.booleans())
def test_a_quantile_lies_in_its_interval_or_is_absent_for_want_of_values(values, q, in_time_order):
    estimate = quantile(values, q, unit="s", in_time_order=in_time_order)
    assert holds(estimate)
    if not in_time_order:
        assert (estimate.value is None) == (values.size < needed_for_quantile(q))


@given(series(numbers, 200), shares, shares)
def test_a_quantile_and_its_bounds_grow_with_q(values, p, q):
    low, high = (quantile(values, x, unit="s") for x in sorted((p, q)))
    if low.value is not None and high.value is not None:
        assert low.value <= high.value
        assert low.low <= high.low
        assert low.high <= high.high


@given(series(numbers, 10), shares, st.randoms(use_true_random=False))
def test_a_quantile_does_not_care_about_order(values, q, random):
    shuffled = values.tolist()
    random.shuffle(shuffled)
    assert quantile(shuffled, q, unit="s") == quantile(values, q, unit="s")


@given(series(numbers, 10), shares, st.integers(-20, 20))
def test_a_quantile_scales_with_its_values(values, q, power):
    one, other = quantile(values, q, unit="s"), quantile(values * 2.0**power, q, unit="s")
    if one.value is not None:
        expected = [x * 2.0**power for x in (one.low, one.value, one.high)]
        assert np.allclose([other.low, other.value, other.high], expected, rtol=1e-12, atol=1e-300)


@given(series(numbers, 1))
def test_a_mean_lies_in_its_interval_and_is_worth_no_more_than_its_values(values):
    estimate = mean_interval(values, unit="s")
    assert holds(estimate)
    assert 1 <= estimate.n <= values.size
    assert 1 <= autocorrelation_time(values) <= values.size


@settings(max_examples=50)
@given(series(st.floats(0, 1e6), 1, 160), st.data())
def test_a_rate_lies_in_its_interval_and_is_work_over_wall(work, data):
    begin = np.sort(data.draw(arrays(np.int64, work.size, elements=st.integers(0, 10**12))))
    end = begin + data.draw(arrays(np.int64, work.size, elements=st.integers(1, 10**11)))
    estimate = rate_interval(work, begin, end, unit="tokens/s")
    assert holds(estimate)
    wall_s = (int(end.max()) - int(begin.min())) / 1e9
    assert np.isclose(estimate.value * wall_s, work.sum(), rtol=1e-9)


@settings(max_examples=50)
@given(arrays(np.int64, st.integers(95, 400), elements=st.integers(1, 10**10)))
def test_a_rate_and_a_mean_of_the_same_rows_agree(took_ns):
    """One has an interval where the other has, and their bounds are each other's inverse to the second order."""
    end_ns = np.cumsum(took_ns)
    rate = rate_interval(np.ones(took_ns.size), end_ns - took_ns, end_ns, unit="1/s")
    mean = mean_interval(took_ns / 1e9, unit="s")
    assert np.isclose(rate.value * mean.value, 1)
    assert (rate.low is None) == (mean.low is None)
    assert rate.n == mean.n
    if mean.low is not None:
        below, above = 1 - mean.low / mean.value, mean.high / mean.value - 1
        assert np.allclose(
            np.log([rate.high / rate.value, rate.value / rate.low]), [below, above], rtol=1e-6, atol=1e-9
        )


@given(st.lists(st.one_of(st.none(), positive), min_size=1, max_size=8))
def test_runs_together_lie_in_their_interval_and_none_goes_unmentioned(values):
    runs = [Estimate.absent("s", "lost") if v is None else Estimate(v, "s", "mean", "measured") for v in values]
    estimate = over_runs(runs)
    lost = values.count(None)
    if len(values) == 1:
        return
    assert (estimate.value is None) == (lost > 0)
    assert not lost or f"absent in {lost} of {len(values)} runs" in estimate.reason
    assert lost or holds(estimate)


@given(series(positive, 1, 8), series(positive, 1, 8))
def test_a_ratio_of_runs_lies_in_its_interval(a, b):
    assert holds(ratio_of_runs(a, b))


@given(positive, positive, st.floats(0, 0.9), st.floats(0, 0.9))
def test_a_ratio_and_its_inverse_have_inverse_intervals(a, b, spread_a, spread_b):
    one, other = (
        Estimate(v, "s", "m", "measured", low=v * (1 - s), high=v * (1 + s), level=0.95)
        for v, s in ((a, spread_a), (b, spread_b))
    )
    straight, inverse = ratio(one, other), ratio(other, one)
    assert holds(straight)
    assert holds(inverse)
    assert np.isclose(straight.low * inverse.high, 1, rtol=1e-6)


@given(series(positive, 1, 400))
def test_any_run_gets_a_label_and_no_row_is_lost(times):
    steadiness = segment(times)
    n = times.size
    assert 0 <= steadiness.steady_begin <= steadiness.steady_end <= n
    assert steadiness.windows[0] == 0
    assert steadiness.windows[-1] == n
    assert all(a < b for a, b in zip(steadiness.windows[:-1], steadiness.windows[1:], strict=True))
    assert (steadiness.validity == "valid") == (steadiness.label in ("flat", "warm-up"))
    assert steadiness.reason
    assert steadiness.peak_window_rate == max(steadiness.window_rate)
    kept = retention(peak_rate(steadiness, unit="1/s"), steadiness)
    assert kept.value is None or kept.value == 1.0


@given(series(st.floats(5e-324, 1.7e308), 1, 60), st.data())
def test_a_run_of_absurd_times_gets_a_label_too(times, data):
    tags = data.draw(st.lists(st.integers(0, times.size - 1), max_size=3))
    steadiness = segment(times, tagged_rows=tags)
    assert steadiness.steady_begin <= times.size
    assert not tags or max(tags) < steadiness.steady_begin or max(tags) >= SteadyRule().min_rows


@given(series(st.floats(0.5, 2.0), 20, 200), st.integers(-30, 30))
def test_the_clocks_unit_changes_no_label(times, power):
    one, other = segment(times), segment(times * 2.0**power)
    assert (one.label, one.steady_begin) == (other.label, other.steady_begin)
