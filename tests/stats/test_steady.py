import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from twinlens.record.estimate import Estimate
from twinlens.reporting.wording.finding import clause_of
from twinlens.stats.estimator.rate import rate_interval
from twinlens.stats.steady.levels import SteadyRule
from twinlens.stats.steady.segment import peak_rate, retention, segment
from twinlens.units import RATIO, TOKENS_PER_S

TRACES = 40


def noise(rng: np.random.Generator, n: int, cv: float) -> np.ndarray:
    return np.exp(cv * rng.normal(size=n))


def first_order(rng: np.random.Generator, n: int, cv: float) -> np.ndarray:
    series = rng.normal(size=n)
    for i in range(1, n):
        series[i] = 0.5 * series[i - 1] + np.sqrt(0.75) * series[i]
    return np.exp(cv * series)


def share(n: int) -> np.ndarray:
    return np.arange(n) / n


def labels(make: Callable[[np.random.Generator], np.ndarray], traces: int = TRACES) -> Counter[str]:
    return Counter(segment(make(np.random.default_rng(seed))).label for seed in range(traces))


@pytest.mark.parametrize(("n", "cv"), [(40, 0.01), (40, 0.03), (200, 0.01), (200, 0.05), (1000, 0.03), (1000, 0.1)])
def test_independent_noise_is_flat(n, cv):
    """400 traces of each kind: 98.5 to 100 % flat; most others are called drift."""
    assert labels(lambda rng: noise(rng, n, cv))["flat"] >= 0.9 * TRACES


@pytest.mark.parametrize(("n", "cv"), [(22, 0.1), (40, 0.1), (100, 0.15)])
def test_noise_in_which_a_change_of_a_tenth_would_not_show_is_no_proof_of_a_level(n, cv):
    verdicts_seen = labels(lambda rng: noise(rng, n, cv))
    assert verdicts_seen["unproven"] >= 0.9 * TRACES
    (told,) = {clause_of(segment(noise(np.random.default_rng(1), n, cv)).reason).partition(" ")[0]}
    assert told == "no"


@pytest.mark.parametrize(("n", "cv"), [(40, 0.05), (200, 0.05), (1000, 0.1)])
@pytest.mark.parametrize("shape", [lambda n: share(n), lambda n: np.where(share(n) >= 0.5, 1.0, 0.0)])
def test_a_change_of_the_least_visible_size_is_seen_in_four_of_five_runs(n, cv, shape):
    """100 traces: 66 to 81 % for a drift, 76 to 90 % for a step half way; a late step needs twice."""
    sizes = [segment(noise(np.random.default_rng(seed), n, cv)).least_visible_change for seed in range(10)]
    size = float(np.median([one for one in sizes if one is not None]))
    verdicts_seen = labels(lambda rng: noise(rng, n, cv) * np.exp(np.log1p(size) * shape(n)))
    assert verdicts_seen["flat"] + verdicts_seen["warm-up"] + verdicts_seen["unproven"] <= 0.45 * TRACES


@pytest.mark.parametrize("n", [200, 1000])
def test_rows_that_resemble_their_neighbours_are_flat(n):
    """Correlation 0.5, CV 3 %, 400 traces: 98 % flat at 200 rows and at 1,000 (92 % at 40)."""
    assert labels(lambda rng: first_order(rng, n, 0.03))["flat"] >= 0.85 * TRACES


@pytest.mark.parametrize(("cv", "least"), [(0.01, 0.95), (0.03, 0.9), (0.05, 0.85)])
def test_an_exponential_warm_up_ends_before_the_steady_part(cv, least):
    """Twice the time, decaying over 8 rows, 400 traces: 99, 97, 96 % at CV 1, 3, 5 %; else drift."""
    verdicts_seen = labels(lambda rng: noise(rng, 200, cv) * (1 + np.exp(-np.arange(200) / 8)))
    assert verdicts_seen["warm-up"] >= least * TRACES


def test_the_warm_up_leaves_no_bias_in_the_steady_part():
    """Mean bias over 40 traces: all rows +4.3 %, without the first ten +1.3 %, from the steady row +0.3 %."""
    warm, fixed, steady = [], [], []
    for seed in range(TRACES):
        times = noise(np.random.default_rng(seed), 200, 0.03) * (1 + np.exp(-np.arange(200) / 8))
        begin = segment(times).steady_begin
        warm.append(times.mean() - 1)
        fixed.append(times[10:].mean() - 1)
        steady.append(times[begin:].mean() - 1)
    assert np.mean(warm) > 0.03
    assert abs(np.mean(steady)) < 0.005
    assert abs(np.mean(steady)) < np.mean(fixed) / 2


@pytest.mark.parametrize(("n", "cv"), [(200, 0.01), (200, 0.03), (1000, 0.03)])
def test_a_throttle_of_six_percent_half_way_is_a_slowdown(n, cv):
    """400 traces each: 99 % slowdown. CV 10 %: 200 rows 11 % (43 % drift, 47 % flat), 1,000 rows 81 %."""
    verdicts_seen = labels(lambda rng: noise(rng, n, cv) * np.where(share(n) >= 0.5, 1.06, 1.0))
    assert verdicts_seen["slowdown"] >= 0.95 * TRACES


def test_a_slowdown_names_the_rows_and_the_size():
    times = noise(np.random.default_rng(0), 200, 0.005) * np.where(share(200) >= 0.5, 1.06, 1.0)
    steadiness = segment(times)
    assert (steadiness.label, steadiness.validity, steadiness.steady_begin) == ("slowdown", "not valid", 100)
    assert clause_of(steadiness.reason).startswith("rows from 100 on take ")
    assert clause_of(steadiness.reason).endswith(" % longer than 0 to 99 did")


def test_a_speed_up_is_a_warm_up_although_both_levels_are_long():
    times = noise(np.random.default_rng(0), 200, 0.01) * np.where(share(200) < 0.3, 1.06, 1.0)
    steadiness = segment(times)
    assert (steadiness.label, steadiness.validity, steadiness.steady_begin) == ("warm-up", "valid", 60)


@pytest.mark.parametrize(("n", "cv"), [(200, 0.01), (200, 0.03), (1000, 0.03)])
def test_a_drift_of_five_percent_is_a_drift(n, cv):
    """400 traces each: 98 to 100 % drift. At CV 10 %: 17 % of 200 rows (else flat), 84 % of 1,000."""
    verdicts_seen = labels(lambda rng: noise(rng, n, cv) * (1 + 0.05 * share(n)))
    assert verdicts_seen["drift"] >= 0.95 * TRACES


def test_a_drift_states_its_size_with_an_interval():
    steadiness = segment(noise(np.random.default_rng(1), 400, 0.01) * (1 + 0.05 * share(400)))
    assert steadiness.slope_ratio.value == pytest.approx(0.05, abs=0.01)
    assert 0 < steadiness.slope_ratio.low < 0.05 < steadiness.slope_ratio.high
    assert clause_of(steadiness.reason).startswith("row time grows by ")


@pytest.mark.parametrize(("n", "cv"), [(200, 0.03), (1000, 0.03), (1000, 0.1)])
def test_a_sinusoid_is_cyclic_and_its_period_is_told(n, cv):
    """Five turns of ±10 %, 400 traces: 100 % cyclic (85 % at 200 rows and CV 10 %)."""
    found = []
    for seed in range(TRACES):
        rng = np.random.default_rng(seed)
        phase = rng.uniform(0, 2 * np.pi)
        found.append(segment(noise(rng, n, cv) * (1 + 0.1 * np.sin(10 * np.pi * share(n) + phase))))
    cyclic = [f for f in found if f.label == "cyclic"]
    assert len(cyclic) >= 0.95 * TRACES
    assert np.median([f.period_rows for f in cyclic]) == pytest.approx(n / 5, rel=0.1)


def test_a_pattern_shorter_than_a_window_is_no_cycle_of_the_run():
    every_seventh = np.where(np.arange(1000) % 7 == 3, 1.5, 1.0)
    assert labels(lambda rng: noise(rng, 1000, 0.01) * every_seventh)["flat"] >= 0.95 * TRACES


def test_a_random_walk_is_no_steady_state():
    """Steps of 3 %, 200 traces: 37 to 40 % none, 32 to 34 % drift, 10 to 14 % provisional, of which 9 in 10 hold."""
    for n in (200, 1000):
        verdicts_seen = labels(lambda rng, n=n: np.exp(0.03 * np.cumsum(rng.normal(size=n))))
        assert verdicts_seen["flat"] + verdicts_seen["warm-up"] <= 0.25 * TRACES
        assert verdicts_seen["no steady state"] >= 0.25 * TRACES


def test_a_slower_level_only_at_the_end_stays_in_the_window_and_keeps_the_run_from_being_ranked():
    times = noise(np.random.default_rng(2), 200, 0.01) * np.where(share(200) >= 0.9, 1.1, 1.0)
    steadiness = segment(times)
    assert (steadiness.label, steadiness.validity, steadiness.steady_begin) == ("disturbed", "not valid", 0)
    (late,) = steadiness.disturbed.stretches
    assert (late.begin_row, late.end_row) == (180, 200)
    assert late.factor == pytest.approx(1.1, abs=0.01)
    assert late.share == pytest.approx(22 / 202, abs=0.005)
    assert steadiness.disturbed.effect == pytest.approx(0.01, abs=0.003)


def test_a_run_without_a_level_for_a_third_of_it_is_no_steady_state():
    times = noise(np.random.default_rng(2), 200, 0.01) * np.repeat([1.0, 1.3, 1.1, 1.5, 1.2], 40)
    steadiness = segment(times)
    assert (steadiness.label, steadiness.validity, steadiness.steady_begin) == ("no steady state", "not valid", 0)
    assert clause_of(steadiness.reason) == "no level holds for 33 % of the rows"


def test_one_stall_that_changes_the_rate_is_named_unranked_and_stays_in_the_throughput():
    stalled = labels(lambda rng: noise(rng, 200, 0.03) * np.where(np.arange(200) == 100, 30, 1))
    assert stalled["disturbed"] >= 0.95 * TRACES
    times = noise(np.random.default_rng(3), 200, 0.01)
    times[100] = 30.0
    steadiness = segment(times)
    assert [(stretch.begin_row, stretch.end_row) for stretch in steadiness.disturbed.stretches] == [(100, 101)]
    end_ns = np.cumsum(np.rint(times * 1e9)).astype(np.int64)
    begin_ns = np.concatenate(([0], end_ns[:-1]))
    inside = slice(steadiness.steady_begin, steadiness.steady_end)
    rate = rate_interval(np.ones(200)[inside], begin_ns[inside], end_ns[inside], unit=TOKENS_PER_S)
    assert rate.value == pytest.approx(200 / times.sum())
    assert min(steadiness.window_rate) < 0.3


def test_a_stall_too_small_to_matter_is_named_and_the_run_is_ranked():
    times = noise(np.random.default_rng(3), 2000, 0.01)
    times[700] = 3.0
    steadiness = segment(times)
    assert (steadiness.label, steadiness.validity, steadiness.disturbed.heavy) == ("flat", "valid", False)
    assert [(stretch.begin_row, stretch.end_row) for stretch in steadiness.disturbed.stretches] == [(700, 701)]


@pytest.mark.parametrize(("rows", "slower", "slow_rows"), [(660, 3.0, 60), (600, 3.0, 150)])
def test_a_slow_phase_in_mid_run_is_no_warm_up(rows, slower, slow_rows):
    """300 rows of 0.1 s, 60 of 0.3 s, 300 of 0.1 s: 8.5 rows/s, where the last level alone would say 10."""
    times = 0.1 * noise(np.random.default_rng(1), rows, 0.005)
    times[240 : 240 + slow_rows] *= slower
    steadiness = segment(times)
    assert (steadiness.label, steadiness.validity, steadiness.steady_begin) == ("disturbed", "not valid", 0)
    assert steadiness.disturbed.largest.begin_row == pytest.approx(240, abs=2)
    assert steadiness.disturbed.largest.factor == pytest.approx(slower, rel=0.02)


@pytest.mark.parametrize("rows", [70, 200, 600])
@pytest.mark.parametrize("before", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("part", [0.05, 0.2, 0.4])
def test_a_slow_phase_after_the_first_rows_is_no_warm_up(rows, before, part):
    slow = max(4, round(part * rows))
    row_s = noise(np.random.default_rng(before), rows, 0.01)
    row_s[before : before + slow] *= 1.3
    found = segment(row_s)
    assert found.steady_begin <= before
    assert found.validity == "not valid" or any(one.begin_row <= before + 3 for one in found.disturbed.stretches)
    assert found.validity == "not valid" or part < 0.1


def test_a_slow_start_that_scatters_is_warm_up_and_in_no_figure():
    """It is 20 % slower at 8 % scatter: three rows of it are often near the level by chance."""
    for seed in range(10):
        row_s = noise(np.random.default_rng(seed), 2000, 0.08)
        row_s[:200] *= 1.2
        found = segment(row_s)
        assert found.validity == "valid"
        assert 180 <= found.steady_begin <= 220, seed


def test_a_disturbance_between_two_levels_that_differ_a_little_is_no_warm_up_either():
    times = noise(np.random.default_rng(1), 660, 0.005)
    times[300:360] *= 3.0
    times[360:] *= 0.98
    steadiness = segment(times)
    assert steadiness.steady_begin <= 1
    assert steadiness.validity == "not valid"


@pytest.mark.parametrize("factor", [1.5, 3.0])
def test_a_short_hiccup_of_several_rows_stays_inside_the_steady_part(factor):
    hiccup = np.where((share(200) >= 0.5) & (share(200) < 0.53), factor, 1.0)
    for seed in range(TRACES):
        steadiness = segment(noise(np.random.default_rng(seed), 200, 0.01) * hiccup)
        assert (steadiness.steady_begin, steadiness.label) == (0, "disturbed")


def test_spikes_all_through_a_run_are_a_habit_that_is_named_and_kept():
    """Two rows in a hundred two to ten times as long: a rate that comes back, in 2,000 rows."""
    ranked = named = 0
    for seed in range(TRACES):
        rng = np.random.default_rng(seed)
        steadiness = segment(noise(rng, 2000, 0.03) * np.where(rng.random(2000) < 0.02, rng.uniform(2, 10, 2000), 1.0))
        ranked += steadiness.validity == "valid"
        named += len(steadiness.disturbed.stretches) > 15
    assert ranked >= 0.9 * TRACES
    assert named == TRACES


def test_a_slow_first_row_is_a_warm_up_of_one_row():
    times = noise(np.random.default_rng(4), 60, 0.03)
    times[0] = 5.0
    steadiness = segment(times)
    assert (steadiness.label, steadiness.steady_begin, steadiness.validity) == ("warm-up", 1, "valid")


def test_tagged_rows_bound_the_steady_part_from_below():
    steadiness = segment(noise(np.random.default_rng(5), 100, 0.01), tagged_rows=[0, 7])
    assert (steadiness.label, steadiness.steady_begin) == ("warm-up", 8)


def test_a_row_that_compiles_in_mid_run_is_a_stall_like_any_other():
    times = noise(np.random.default_rng(5), 100, 0.01)
    times[[0, 60]] = 20.0
    steadiness = segment(times, tagged_rows=[0, 60])
    assert (steadiness.label, steadiness.validity, steadiness.steady_begin) == ("disturbed", "not valid", 1)
    assert (steadiness.disturbed.largest.begin_row, steadiness.disturbed.largest.end_row) == (60, 61)


def test_too_few_rows_or_seconds_are_too_short_and_say_what_is_asked_for():
    steadiness = segment(np.ones(12))
    assert steadiness.label == "too short"
    assert clause_of(steadiness.reason) == "only 12 rows after the start, of 12 rows; at least 20 are needed"
    brief = segment(np.ones(30), rule=SteadyRule(min_seconds=60))
    assert (brief.label, brief.validity) == ("unproven", "provisional"), "nothing wrong was seen, for too short a time"
    assert "only 30 s in the level that begins at row 0; at least 60 s are needed" in clause_of(brief.reason)
    long = segment(np.ones(30), rule=SteadyRule(min_seconds=30))
    assert brief.least_visible_change == pytest.approx(2 * long.least_visible_change), "over twice the time"


def test_work_per_row_makes_long_rows_of_much_work_no_disturbance():
    rng = np.random.default_rng(6)
    tokens = rng.integers(100, 1000, 200).astype(float)
    times = tokens * 1e-3 * noise(rng, 200, 0.01)
    steadiness = segment(times, work=tokens)
    assert steadiness.label == "flat"
    assert steadiness.cv == pytest.approx(0.01, rel=0.2)
    assert np.average(steadiness.window_rate) == pytest.approx(1000, rel=0.01)


def test_windows_tile_the_whole_run():
    times = noise(np.random.default_rng(7), 1234, 0.02)
    steadiness = segment(times)
    assert steadiness.windows[0] == 0
    assert steadiness.windows[-1] == 1234
    assert len(steadiness.windows) == len(steadiness.window_rate) + 1 == 61
    lengths = [times[a:b].sum() for a, b in zip(steadiness.windows[:-1], steadiness.windows[1:], strict=True)]
    assert np.dot(steadiness.window_rate, lengths) == pytest.approx(1234)


def test_rows_without_a_positive_finite_time_are_refused():
    for bad in ([], [1.0, 0.0], [1.0, float("nan")], [-1.0]):
        with pytest.raises(ValueError, match="positive"):
            segment(bad)
    with pytest.raises(ValueError, match="every row has its work"):
        segment([1.0, 1.0], work=[1.0])
    with pytest.raises(ValueError, match="tagged row"):
        segment([1.0, 1.0], tagged_rows=[2])


def test_a_million_rows_take_well_under_half_a_second():
    times = noise(np.random.default_rng(8), 1_000_000, 0.03)
    begin = time.process_time()
    assert segment(times).label == "flat"
    assert time.process_time() - begin < 10  # 0.1 s alone


def test_the_peak_is_the_best_window_and_claims_no_interval():
    steadiness = segment(np.concatenate((np.full(50, 0.5), np.full(50, 1.0))))
    peak = peak_rate(steadiness, unit=TOKENS_PER_S)
    assert (peak.value, peak.low, peak.n) == (2.0, None, 10)
    assert peak_rate(segment(np.ones(12)), unit=TOKENS_PER_S).value is None


def test_retention_is_sustained_over_peak():
    steadiness = segment(np.concatenate((np.full(50, 0.5), np.full(50, 1.0))))
    sustained = Estimate(1.0, TOKENS_PER_S, "work / wall", "measured", low=0.9, high=1.1, level=0.95, n=50)
    kept = retention(sustained, steadiness)
    assert (kept.value, kept.low, kept.high) == (0.5, 0.45, 0.55)
    assert (kept.unit, kept.origin, kept.level) == (RATIO, "derived", 0.95)
    assert retention(Estimate.absent(TOKENS_PER_S, "no rows"), steadiness).value is None


def test_retention_says_what_noise_alone_would_give():
    times = noise(np.random.default_rng(9), 600, 0.1)
    steadiness = segment(times)
    sustained = Estimate(600 / times.sum(), TOKENS_PER_S, "work / wall", "measured")
    kept = retention(sustained, steadiness)
    told = float(kept.method.rsplit("about ", 1)[1])
    assert kept.value < 0.97
    assert told == pytest.approx(kept.value, abs=0.03)


def test_retention_is_absent_where_the_best_is_one_of_few_windows():
    times = noise(np.random.default_rng(9), 90, 0.1)
    sustained = Estimate(90 / times.sum(), TOKENS_PER_S, "work / wall", "measured")
    kept = retention(sustained, segment(times))
    assert (kept.value, kept.reason) == (None, "the best of fewer than 10 windows says little")


def test_what_noise_alone_would_give_knows_stalls_and_does_not_hide_a_slowdown():
    """Two rows in a hundred ten times as long: retention 0.84, noise alone gives no more. A slow drift: it does."""
    rng = np.random.default_rng(2)
    stalls = noise(rng, 1000, 0.03) * np.where(rng.random(1000) < 0.02, 10.0, 1.0)
    drift = noise(rng, 1000, 0.03) * (1 + 0.2 * share(1000))
    for times, least, most in ((stalls, -0.04, 0.04), (drift, 0.04, 0.11)):
        steadiness = segment(times)
        kept = 1000 / times.sum() / steadiness.peak_window_rate
        assert steadiness.noise_retention is not None
        assert least <= steadiness.noise_retention - kept <= most


@pytest.mark.parametrize("n", [70, 200, 400, 1000])
@pytest.mark.parametrize("size", [1.3, 3.0])
def test_a_spike_every_twenty_rows_is_no_cycle_however_windows_fall(n, size):
    """Before, 54 % of runs of 200 rows were cyclic by it, and none of 70 or 1,000."""
    spikes = np.where(np.arange(n) % 20 == 7, size, 1.0)
    assert labels(lambda rng: noise(rng, n, 0.03) * spikes)["cyclic"] <= 0.05 * TRACES
