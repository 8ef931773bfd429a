"""Ratios of points that took turns: hand-worked, their interval against the truth, and their own label."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.coverage.paired import MACHINES, RATIO, Machine, line, ratios, sides
from benchmarks.coverage.turns import ended, ratio, rounds_at_looks
from hypothesis import given
from hypothesis import strategies as st

from twinlens.record.column import without_waiting
from twinlens.record.finding import Finding
from twinlens.record.request import REQUEST_SCHEMA, Requests
from twinlens.record.samples import TELEMETRY_SCHEMA
from twinlens.record.step import STEP_SCHEMA, Steps
from twinlens.reporting.wording.finding import clause_of
from twinlens.stats.metrics.training import training_steadiness
from twinlens.stats.paired.ratio import (
    MOST_HIDDEN,
    PairedRatio,
    leaves_rates,
    paired_ratio,
    ratio_over,
    steadiness,
    widest,
)
from twinlens.stats.paired.slice_rate import SliceRates, inference_slices, training_slices
from twinlens.units import digits

S = 10**9
NO_TELEMETRY = pa.Table.from_pylist([], schema=TELEMETRY_SCHEMA)


def rates(slices: list[int], values: list[float], disturbed: list[bool] | None = None) -> SliceRates:
    return SliceRates(np.array(slices), np.array(values), np.array(disturbed or [False] * len(slices)))


def foreign(*samples: tuple[int, float]) -> pa.Table:
    rows = [{"time_ns": at_ns, "source": "host", "foreign_cpu": share} for at_ns, share in samples]
    return pa.Table.from_pylist(rows, schema=TELEMETRY_SCHEMA)


def steps(*rows: tuple[int, int, int, int]) -> Steps:
    """(slice, begin in s, end in s, tokens) of each step."""
    plain = [
        {"kind": "step", "slice": number, "begin_ns": begin * S, "end_ns": end * S, "samples": 1, "tokens": tokens}
        for number, begin, end, tokens in rows
    ]
    return Steps.from_table(pa.Table.from_pylist(plain, schema=STEP_SCHEMA))


def test_the_rate_of_a_slice_is_its_work_over_its_own_time() -> None:
    rows = steps((-1, 0, 5, 10), (0, 10, 12, 10), (0, 12, 14, 10), (3, 20, 25, 10))
    found = training_slices(rows, NO_TELEMETRY)["training_tokens_per_s"]
    assert found.slices.tolist() == [0, 3]
    assert found.rates.tolist() == [5.0, 2.0]
    assert not found.disturbed.any()


def test_waiting_is_taken_out_of_the_times_of_rows() -> None:
    rows = steps((-1, 0, 5, 10), (0, 10, 12, 10), (0, 12, 14, 10), (3, 20, 25, 10))
    assert (without_waiting(rows.begin_ns, rows.end_ns, rows.slice) / S).tolist() == [0, 5, 5, 11]
    only, _ = training_steadiness(rows)
    assert (only.begin_ns / S).tolist() == [0, 5, 7, 9]
    assert (only.end_ns / S).tolist() == [5, 7, 9, 14]


def test_rows_of_no_slice_keep_their_times() -> None:
    begin, end = np.array([0, 10]), np.array([5, 15])
    assert without_waiting(begin, end, np.array([math.nan, math.nan])).tolist() == [0, 0]


def batches() -> Requests:
    """Two batches of two requests in slices 0 and 3: 4 tokens each, the first after 1 s, one more every second."""
    rows = [
        {
            "group": group, "slice": number, "intended_ns": at * S, "sent_ns": at * S, "end_ns": (at + 4) * S,
            "chunk_ns": [(at + one) * S for one in (1, 2, 3, 4)], "chunk_tokens": [1, 1, 1, 1], "input_tokens": 8,
            "output_tokens": 4, "outcome": "ok",
        }
        for group, number, at in ((0, 0, 0), (0, 0, 0), (1, 3, 10), (1, 3, 10))
    ]  # fmt: skip
    return Requests.from_table(pa.Table.from_pylist(rows, schema=REQUEST_SCHEMA))


def test_a_batch_decodes_together_and_its_time_counts_once() -> None:
    found = inference_slices(batches(), NO_TELEMETRY)
    assert found["output_tokens_per_s"].rates.tolist() == [2.0, 2.0]
    assert found["decode_tokens_per_s"].rates.tolist() == [2.0, 2.0]  # 2 × 3 tokens in 3 s


def test_requests_in_their_own_time_follow_each_other() -> None:
    own = batches().own_time()
    assert (own.intended_ns / S).tolist() == [0, 0, 4, 4]
    assert (own.end_ns / S).tolist() == [4, 4, 8, 8]
    assert (own.chunk_ns[-4:] / S).tolist() == [5, 6, 7, 8]


def test_a_slice_in_which_others_took_the_machine_is_marked_and_stays() -> None:
    rows = steps((0, 0, 2, 10), (3, 10, 12, 10))
    found = training_slices(rows, foreign((1 * S, 0.01), (2 * S + 1, 0.02), (11 * S, 0.4), (12 * S + 1, 0.4)))
    marked = found["training_tokens_per_s"]
    assert marked.disturbed.tolist() == [False, True]
    assert marked.rates.size == 2


def test_the_ratio_is_the_geometric_mean_of_rounds_then_of_repeats() -> None:
    first = rates([0, 3, 4], [8.0, 2.0, 4.0]), rates([1, 2, 5], [2.0, 2.0, 4.0])  # 4, 1, 1
    second = rates([1], [16.0]), rates([0], [1.0])
    ratio = paired_ratio([first, second], [2, 2])
    assert ratio.ratio.value == pytest.approx(math.exp((math.log(4) / 3 + math.log(16)) / 2))
    assert (ratio.repeats, ratio.blocks, ratio.slices) == (2, 4, 8)
    assert ratio.ratio.level is None


def test_three_repeats_by_hand() -> None:
    found = ratio_over([np.log([2.0]), np.log([2.0, 2.0]), np.log([4.0])])
    half = 4.302653 * math.log(2) / math.sqrt(3) / math.sqrt(3)
    assert found.value == pytest.approx(2 ** (4 / 3))
    assert found.low == pytest.approx(2 ** (4 / 3) * math.exp(-half), rel=1e-5)
    assert (found.n, found.level, found.origin) == (3, 0.95, "derived")


def test_a_round_that_only_one_point_finished_is_no_pair() -> None:
    ratio = paired_ratio([(rates([0, 3], [2.0, 2.0]), rates([1], [1.0]))], [2])
    assert ratio.blocks == 1
    assert ratio.label == "too short"
    assert ratio.validity == "not valid"


def test_no_common_round_is_absent_with_a_reason() -> None:
    ratio = paired_ratio([], [])
    assert ratio.ratio.value is None
    assert ratio.validity == "not valid"


def test_what_meets_both_sides_leaves_the_ratio_alone() -> None:
    """A machine that is three times slower for half the time: the rates say so, the ratio does not."""
    rng = np.random.default_rng(1)
    slow = np.repeat([1.0, 3.0, 1.0, 3.0], 10)
    pairs = []
    for _ in range(3):
        noise = np.exp(0.02 * rng.normal(size=(2, 40)))
        fast, plain = list(20 / slow * noise[0]), list(10 / slow * noise[1])
        pairs.append((rates(list(range(0, 80, 2)), fast), rates(list(range(1, 80, 2)), plain)))
    ratio = paired_ratio(pairs, [2] * 3)
    assert ratio.validity == "valid"
    assert ratio.ratio.low is not None
    assert ratio.ratio.high is not None
    assert 1.97 < ratio.ratio.low < ratio.ratio.high < 2.03


def test_a_ratio_that_moves_is_a_drift_and_not_ranked() -> None:
    rng = np.random.default_rng(2)
    series = [np.log(2) + np.linspace(0, 0.2, 30) + 0.02 * rng.normal(size=30) for _ in range(3)]
    label, reason, visible = steadiness(series)
    assert label == "drift"
    assert "grows by" in clause_of(reason)
    assert visible is not None
    assert visible < 0.1


def test_drifts_that_cancel_over_repeats_are_found_in_each() -> None:
    rng = np.random.default_rng(3)
    series = [0.02 * rng.normal(size=30) for _ in range(3)]
    series[0] += np.linspace(0, 0.2, 30)
    series[1] += np.linspace(0.2, 0, 30)
    label, reason, _ = steadiness(series)
    assert (label, "over repeat 0" in clause_of(reason)) == ("drift", True)


def test_a_level_says_what_it_could_have_seen() -> None:
    label, reason, visible = steadiness([0.05 * np.random.default_rng(4).normal(size=12) for _ in range(3)])
    assert label == "level"
    assert visible is not None
    assert 0.05 < visible < MOST_HIDDEN
    assert f"{digits(100 * visible, 2)} % over a repeat would have shown" in clause_of(reason)


def test_a_ratio_whose_rounds_could_hide_a_drift_of_a_quarter_is_not_ranked() -> None:
    rng = np.random.default_rng(4)
    pairs = [
        (
            rates(list(range(0, 40, 2)), list(np.exp(rng.normal(size=20)))),
            rates(list(range(1, 40, 2)), list(np.exp(rng.normal(size=20)))),
        )
        for _ in range(3)
    ]
    ratio = paired_ratio(pairs, [2] * 3)
    assert ratio.visible_change is not None
    assert ratio.visible_change > MOST_HIDDEN
    assert (ratio.label, ratio.validity) == ("unproven", "provisional")
    size = digits(100 * ratio.visible_change, 2)
    reason = f"no change showed in 60 rounds, but a change of less than {size} % could be missed"
    assert clause_of(ratio.reason) == reason
    assert ratio.ratio.hidden == pytest.approx(ratio.visible_change), "its interval takes it in"


@given(st.floats(0.001, 2.0), st.integers(0, 2**16))
def test_what_is_ranked_could_have_shown_a_drift_of_a_quarter(scatter: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    label, _, visible = steadiness([scatter * rng.normal(size=15) for _ in range(3)])
    assert visible is not None
    assert (label == "level") <= (visible <= MOST_HIDDEN)
    assert (label == "unproven") <= (visible > MOST_HIDDEN)


@given(st.lists(st.floats(0.1, 10), min_size=8, max_size=30), st.floats(0.01, 100))
def test_turning_a_ratio_round_turns_its_interval_round(values: list[float], other: float) -> None:
    count = len(values)
    above, below = rates(list(range(0, 2 * count, 2)), values), rates(list(range(1, 2 * count, 2)), [other] * count)
    one, back = paired_ratio([(above, below)], [2]).ratio, paired_ratio([(below, above)], [2]).ratio
    assert one.value is not None
    assert back.value == pytest.approx(1 / one.value)
    if one.low is not None:
        assert back.high == pytest.approx(1 / one.low)


@pytest.mark.parametrize(
    "name", ["quiet", "bursts of 5 s", "bursts, drift, throttling", "bursts; repeats differ by 5 %"]
)
def test_nineteen_of_twenty_intervals_hold_the_truth(name: str) -> None:
    """Coarse: 400 studies; 95 % ± 3.3 at three standard errors. The fine table: docs/results/coverage-paired.md."""
    machine = next(one for one in MACHINES if one.name == name)
    found = sides(machine, 3, 12, 400)
    covered = {repeats: line(name, ratios(found, repeats, 12), repeats, 12) for repeats in (1, 3)}
    most = 1.0 if "bursts" in name else 0.983  # beside bursts some are provisional, and their intervals wider
    assert 0.917 <= covered[3].covered <= most
    assert covered[3].given == 1
    assert abs(covered[3].bias) < 0.015
    assert covered[3].calm > 0.93
    if not machine.between:
        assert covered[1].covered >= 0.917


def test_the_simulated_truth_is_that_of_its_rows() -> None:
    still = next(one for one in MACHINES if one.name == "quiet")
    found = ratios(sides(still, 3, 12, 50), 3, 12)
    assert np.mean([one.ratio.value or 0 for one in found]) == pytest.approx(RATIO, rel=0.003)


def beside(calm: int, slow: int, factor: float, repeats: int = 3) -> PairedRatio:
    """2× in calm rounds, `factor` × in those beside others, with 1 % of noise."""
    rng = np.random.default_rng(7)
    count = calm + slow
    marks = [place % (count // slow or 1) == 0 if slow <= calm else place >= calm for place in range(count)]
    pairs = []
    for _ in range(repeats):
        values = [(factor if mark else 2.0) * math.exp(0.01 * rng.normal()) for mark in marks]
        pairs.append(
            (rates(list(range(0, 2 * count, 2)), values, marks), rates(list(range(1, 2 * count, 2)), [1.0] * count))
        )
    return paired_ratio(pairs, [2] * repeats)


def test_where_one_side_suffers_more_the_calm_rounds_count_alone() -> None:
    ratio = beside(20, 10, 1.5)
    assert ratio.ratio.value == pytest.approx(2.0, rel=0.01)
    assert (ratio.blocks, ratio.all_blocks) == (60, 90)
    assert ratio.beside == pytest.approx(1.5, rel=0.01)
    assert ratio.suffers == pytest.approx(-0.25, rel=0.05)
    assert ratio.validity == "valid"
    assert beside(20, 10, 2.0).suffers is None, "both suffer alike"


def test_with_few_calm_rounds_that_disagree_with_the_others_a_ratio_is_not_valid() -> None:
    ratio = beside(4, 20, 1.5)
    assert (ratio.label, ratio.validity) == ("unequal", "not valid")
    assert "suffers more from other programs" in clause_of(ratio.reason)
    alike = beside(4, 20, 2.0)
    assert (alike.label, alike.suffers, alike.blocks) == ("level", None, 72)
    assert alike.ratio.hidden, "widened by the difference that could not have shown"


def test_without_calm_rounds_a_ratio_is_that_beside_the_others_and_provisional() -> None:
    ratio = beside(0, 20, 1.5)
    assert (ratio.label, ratio.validity) == ("unproven", "provisional")
    assert clause_of(ratio.reason) == "none of 60 rounds was calm, so it is the ratio beside other programs"


@pytest.mark.parametrize("factor", [1.9, 1.4])
def test_sides_that_suffer_unequally_have_a_ratio_that_holds_the_calm_one(factor: float) -> None:
    """Coarse: 80 studies. The fine table: docs/results/coverage-paired.md."""
    machine = Machine("", burst_share=0.3, burst_s=1.5, other_factor=factor)
    found = [one for one in ratios(sides(machine, 3, 30, 80), 3, 30, is_known=True) if one.validity != "not valid"]
    assert len(found) > 60
    assert line("", found, 3, 30).covered > 0.88
    assert abs(line("", found, 3, 30).bias) < 0.01


def test_cold_first_rows_of_slices_are_left_out_and_equal_ones_stay() -> None:
    def run(cold: float) -> Steps:
        rng, now_ns, plain = np.random.default_rng(5), 0, []
        for number in range(12):
            for place in range(6):
                end_ns = now_ns + int(S * (1 + cold * (place == 0)) * math.exp(0.02 * rng.normal()))
                row = {"kind": "step", "slice": 2 * number, "begin_ns": now_ns, "end_ns": end_ns, "tokens": 10}
                plain.append(row | {"samples": 1})
                now_ns = end_ns
            now_ns += 6 * S  # the other's turn
        return Steps.from_table(pa.Table.from_pylist(plain, schema=STEP_SCHEMA))

    for cold in (0.3, 0.0):
        found = training_slices(run(cold), NO_TELEMETRY)["training_tokens_per_s"].rates
        assert found.mean() == pytest.approx(10.0, rel=0.015), "a third longer first row made it 5 % slower"


def slices_at(rates: list[float], place: int, points: int = 2) -> SliceRates:
    """One slice a round at these rates, for the point whose turn comes at `place`."""
    count = len(rates)
    return SliceRates(np.arange(count) * points + place, np.array(rates), np.zeros(count, bool))


def test_a_ratio_that_was_looked_at_is_asked_more_surely_and_shown_at_its_level() -> None:
    noise = np.random.default_rng(3).normal(size=(2, 40)) * 0.05
    sides = [(slices_at(list(2 * np.exp(noise[0])), 0), slices_at(list(np.exp(noise[1])), 1))]
    once, often = (paired_ratio(sides, [2], looks=looks).ratio for looks in (1, 5))
    assert once.level == often.level == 0.95
    assert None not in (once.low, once.high, often.low, often.high)
    assert often.high / often.low > once.high / once.low  # type: ignore[operator]
    assert "each look at 0.99" in often.method
    thrice = [paired_ratio(sides * 3, [2] * 3, looks=looks).ratio for looks in (1, 5)]
    assert thrice[0] == thrice[1], "an interval over repeats does not come from the rounds that ended them"


def test_rounds_may_end_where_the_least_known_ratio_of_two_points_is_known() -> None:
    rng = np.random.default_rng(4)
    noisy = [slices_at(list(np.exp(spread * rng.normal(size=40))), place, 3)
             for place, spread in enumerate((0.01, 0.01, 0.1))]  # fmt: skip
    known = widest(noisy[:2], 5)
    assert 0 < known < 0.02
    assert known < widest(noisy, 5) < 0.2
    assert widest([SliceRates(each.slices[:5], each.rates[:5], each.disturbed[:5]) for each in noisy], 5) == math.inf
    drifting = slices_at(list(np.exp(np.linspace(0, 0.5, 40))), 0, 3)
    assert widest([drifting, noisy[1]], 5) == math.inf


def test_rounds_that_ended_when_the_ratio_was_known_hold_it() -> None:
    """One repeat on a quiet machine: looks that did not share the doubt hold 92 % (docs/results/coverage-turns.md)."""
    found = sides(MACHINES[0], 1, 60, 60)
    looks = len(rounds_at_looks())
    ends = [ended(found, 0, study, 0.05, looks) for study in range(60)]
    assert np.mean(ends) < 25, "sixty were the most"
    given = [ratio(found, study, [blocks], looks) for study, blocks in enumerate(ends)]
    assert np.mean([(one.low or 0) <= RATIO <= (one.high or 0) for one in given]) >= 0.93


@pytest.mark.parametrize(
    ("causes", "leaves"),
    [(["chunks-merged"], True), (["chunks-merged", "client-loaded"], False), (["sent-late"], False), ([], False)],
)
def test_only_lost_times_of_chunks_leave_a_ratio_of_rates_alone(causes: list[str], leaves: bool) -> None:
    """A slice has its tokens and both its ends, whatever its client lost between them; late requests are others."""
    because = tuple(Finding(each, "disqualifies") for each in causes)
    assert leaves_rates(Finding("client-limit", "disqualifies", because=because)) is leaves
    assert leaves_rates(Finding("disturbed", "disqualifies"))
