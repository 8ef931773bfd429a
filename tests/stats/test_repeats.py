import numpy as np
import pytest

from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.ratio import difference_of_runs, ratio, ratio_of_runs
from twinlens.stats.estimator.repeats import over_runs, weakest
from twinlens.stats.summary.point import over_repeats
from twinlens.units import JOULES, RATIO, TOKENS_PER_S


def run(value: float, half: float = 0.5, origin="measured") -> Estimate:
    return Estimate(value, TOKENS_PER_S, "work / wall", origin, low=value - half, high=value + half, level=0.95, n=40)


ABSENT = Estimate.absent(TOKENS_PER_S, "the device was lost")


def test_five_runs_have_the_textbook_t_interval():
    # Mean 12, s = 1.58114, t(4) = 2.77645: half-width 1.96324.
    estimate = over_runs([run(v) for v in (10, 11, 12, 13, 14)])
    assert estimate.value == 12
    assert estimate.high - 12 == pytest.approx(1.96324, abs=1e-5)
    assert 12 - estimate.low == pytest.approx(1.96324, abs=1e-5)
    assert (estimate.n, estimate.level) == (5, 0.95)
    assert estimate.method == "mean of 5 runs in fresh processes, t interval"


def test_two_runs_have_a_range_and_claim_no_confidence():
    estimate = over_runs([run(10), run(13)])
    assert (estimate.value, estimate.low, estimate.high, estimate.level) == (11.5, 10, 13, None)
    assert "no confidence" in estimate.method


def test_one_run_keeps_its_own_interval_and_says_it_cannot_be_compared():
    estimate = over_runs([run(10)])
    assert (estimate.low, estimate.high, estimate.n) == (9.5, 10.5, 40)
    assert estimate.method == "work / wall; within one run; not comparable across runs"


def test_a_run_without_a_value_is_not_left_out_of_what_the_others_say():
    estimate = over_runs([run(10), ABSENT, run(11), run(12)])
    assert estimate.value is None
    assert estimate.reason == "absent in 1 of 4 runs (the device was lost)"
    failures = Estimate.absent("s", "p99 falls among the 30 of 1000 requests that failed")
    fast = [Estimate(v, "s", "p99", "measured", v / 2, v * 2, 0.95, 9) for v in (0.4, 0.5)]
    assert over_runs([failures, *fast]).value is None
    assert over_runs([failures, failures, fast[0]]).value is None


def test_quantiles_without_an_interval_of_their_own_have_one_over_runs():
    values = [0.3326, 0.3426, 0.3032]  # one of the three runs was disturbed, and so had no interval
    runs = [Estimate(v, "s", "p50: empirical quantile; no interval: …", "measured") for v in values]
    estimate = over_runs(runs)
    assert (round(estimate.value, 3), estimate.level, estimate.n) == (0.326, 0.95, 3)
    assert (estimate.high - estimate.value) / estimate.value == pytest.approx(0.157, abs=0.002)


def test_an_open_upper_bound_stays_open_over_runs():
    runs = [Estimate(v, "s", "p99", "measured", v / 2, None, 0.95, 400) for v in (0.4, 0.45, 0.5)]
    estimate = over_runs(runs)
    assert estimate.value == pytest.approx(0.45)
    assert (estimate.low is not None, estimate.high) == (True, None)
    assert "open" in estimate.method


def test_no_bound_lies_where_the_quantity_cannot_be():
    estimate = over_runs([run(v) for v in (1, 10, 20)], least=0.0)
    assert estimate.low == 0
    assert estimate.method.endswith("cut at 0, the least it can be")


def shares(*of: tuple[float, int]) -> list[Estimate]:
    return [Estimate(p, "1", "share", "measured", max(0.0, p - 0.03), min(1.0, p + 0.03), 0.95, n) for p, n in of]


def test_a_share_over_runs_stays_a_share_and_has_an_interval_where_all_is_well():
    whole = over_runs(shares((1.0, 368), (1.0, 368), (1.0, 368)), kind="share")
    # Clopper & Pearson for 1104 of 1104: 0.025^(1/1104).
    assert (whole.value, whole.high) == (1.0, 1.0)
    assert whole.low == pytest.approx(0.025 ** (1 / 1104))
    mixed = over_runs(shares((0.98, 400), (1.0, 400), (0.99, 400)), kind="share")
    assert 0.9 < mixed.low < 0.99 < mixed.high <= 1
    apart = over_runs(shares((0.9, 400), (1.0, 400), (0.95, 400)), kind="share")
    assert apart.high - apart.low > 2 * (mixed.high - mixed.low)


def test_times_to_a_target_keep_the_width_of_what_is_known_of_each():
    reached = [Estimate(65.0, "s", "between evaluations", "measured", 60.0, 70.0, None, 1)] * 3
    estimate = over_runs(reached, kind="bracket")
    assert (estimate.low, estimate.value, estimate.high) == (60, 65, 70)
    assert over_runs(reached[:2], kind="bracket").high == 70
    missed = Estimate.absent("s", "target not reached (best 3.1)")
    assert over_runs([*reached, missed], kind="bracket").value is None


def test_runs_that_are_all_absent_are_absent():
    estimate = over_runs([ABSENT, ABSENT])
    assert estimate.value is None
    assert estimate.reason == "absent in 2 of 2 runs (the device was lost)"


def test_runs_in_different_units_or_none_at_all_are_refused():
    with pytest.raises(ValueError, match="one unit"):
        over_runs([run(1), Estimate(1.0, JOULES, "counter", "measured")])
    with pytest.raises(ValueError, match="one unit"):
        over_runs([])


def test_a_number_is_no_stronger_than_the_weakest_it_is_made_of():
    assert weakest("measured", "modelled", "quoted") == "modelled"
    assert over_runs([run(1), run(2), run(3, origin="quoted")]).origin == "quoted"


def first_order_runs(rng: np.random.Generator, shape: tuple[int, ...], rows: int) -> np.ndarray:
    """Rows [rows, *shape] of runs whose levels vary by 1 %, and rows by 3 %, correlated by 0.5."""
    level = rng.normal(1, 0.01, shape)
    series = np.empty((rows, *shape))
    series[0] = rng.normal(size=shape)
    for i in range(1, rows):
        series[i] = 0.5 * series[i - 1] + np.sqrt(0.75) * rng.normal(size=shape)
    return 100 * (level + 0.03 * series)


def test_intervals_over_few_runs_cover_the_truth_where_pooled_rows_do_not():
    """600 simulations each: 0.957 (3 runs), 0.963 (4), 0.927 (5); pooled rows 0.29 0.31 0.32."""
    for runs in (3, 4, 5):
        rows = first_order_runs(np.random.default_rng(runs), (600, runs), 200)
        over = [over_runs([run(float(v)) for v in means]) for means in rows.mean(axis=0)]
        assert 0.9 <= sum(_covers(e, 100) for e in over) / 600 <= 0.98
        pooled = rows.transpose(1, 0, 2).reshape(600, -1)
        half = 1.96 * pooled.std(axis=1) / np.sqrt(pooled.shape[1])
        assert (np.abs(pooled.mean(axis=1) - 100) <= half).mean() < 0.4


def _covers(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def test_a_ratio_of_symmetric_estimates_is_fiellers():
    # t² (25 - 0.25) - 100 t + (100 - 1) = 0 has the roots 1.73522 and 2.30519.
    estimate = ratio(run(10, 1.0), run(5, 0.5))
    assert estimate.value == 2
    assert estimate.low == pytest.approx((100 - 199**0.5) / 49.5)
    assert estimate.high == pytest.approx((100 + 199**0.5) / 49.5)
    assert (estimate.unit, estimate.origin, estimate.level) == (RATIO, "derived", 0.95)


def test_a_ratio_carries_the_unit_of_its_parts_and_the_weaker_origin():
    watts = Estimate(300.0, "j", "counter", "modelled")
    estimate = ratio(watts, run(10))
    assert estimate.unit == "j/tokens/s"
    assert estimate.origin == "modelled"
    assert estimate.level is None
    assert ratio(watts, run(10), unit="j/token").unit == "j/token"


def test_a_ratio_with_an_absent_or_empty_part_is_absent():
    assert ratio(run(1), ABSENT).reason == "the denominator is absent: the device was lost"
    assert ratio(ABSENT, run(1)).reason == "the numerator is absent: the device was lost"
    assert ratio(run(1), run(0, 0.0)).value is None


def test_a_ratio_over_a_number_not_clear_of_zero_has_no_interval():
    estimate = ratio(run(10, 1.0), run(1, 2.0))
    assert (estimate.value, estimate.low, estimate.level) == (10, None, None)


def test_a_ratio_never_claims_more_than_its_denominator_can_bear():
    loose = Estimate(5.0, TOKENS_PER_S, "x", "measured", low=4.0, high=6.0, level=0.9)
    assert "below 0.95" in ratio(run(10), loose).lacks
    assert ratio(run(10), loose).low is None
    strict = Estimate(5.0, TOKENS_PER_S, "x", "measured", low=4.0, high=6.0, level=0.99)
    assert ratio(run(10), strict).level == 0.95


def test_a_ratio_of_runs_needs_three_a_side_for_an_interval():
    estimate = ratio_of_runs([10, 11], [5, 5, 6])
    assert estimate.value == pytest.approx(10.5 / (16 / 3))
    assert estimate.level is None
    assert ratio_of_runs([], [1.0]).value is None
    assert ratio_of_runs([3.0] * 3, [2.0] * 3).low == 1.5


def test_ratios_of_runs_cover_the_truth():
    """Measured with 2,000 simulations of 3 against 5 runs whose spreads differ: 0.948."""
    rng = np.random.default_rng(1)
    found = [ratio_of_runs(rng.normal(120, 3, 3), rng.normal(100, 1, 5)) for _ in range(600)]
    assert 0.92 <= sum(_covers(e, 1.2) for e in found) / 600 <= 0.985


def test_runs_of_zero_or_less_are_refused_in_a_ratio():
    with pytest.raises(ValueError, match="positive"):
        ratio_of_runs([1.0, 0.0], [1.0])


def test_two_means_are_told_apart_by_the_interval_of_their_difference():
    # The published losses: Welch's interval is 0.090 to 0.362, while their own intervals overlap.
    fp32, bf16 = [5.720, 5.701, 5.630], [5.489, 5.382, 5.503]
    found = difference_of_runs(fp32, bf16, unit="nat")
    assert found.value == pytest.approx(0.2257, abs=1e-4)
    assert (found.low, found.high) == (pytest.approx(0.090, abs=0.001), pytest.approx(0.362, abs=0.001))
    alone = [over_runs([run(v) for v in side]) for side in (fp32, bf16)]
    assert alone[0].low < alone[1].high
    assert difference_of_runs(fp32[:2], bf16, unit="nat").level is None
    assert difference_of_runs([1.0] * 3, [1.0] * 3, unit="nat").low == 0.0


def test_differences_of_runs_cover_the_truth():
    rng = np.random.default_rng(2)
    found = [difference_of_runs(rng.normal(5, 0.1, 3), rng.normal(5, 0.2, 3), unit="nat") for _ in range(600)]
    assert 0.92 <= sum(_covers(e, 0) for e in found) / 600 <= 0.985


def test_counts_over_repeats_end_at_no_share():
    runs = [{"restarts_used": Estimate(value, "", "restarts", "measured", n=1)} for value in (0.0, 1.0, 0.0)]
    found = over_repeats("restarts_used", runs, is_open=False)
    assert (found.low, found.high) == (0.0, pytest.approx(1 / 3 + 4.30265 / 3, abs=1e-4))
    assert "cut at 1" not in found.method
