"""Metrics of a served run, by hand."""

from __future__ import annotations

from dataclasses import asdict
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.coverage.truths import served, stays
from hypothesis import given, settings
from hypothesis import strategies as st

from served_rows import MS, columns, failed, poisson, queue, row, served_metrics
from twinlens.pages import find
from twinlens.record.estimate import Estimate
from twinlens.record.request import REQUEST_SCHEMA, Requests
from twinlens.spec.slo import Slo
from twinlens.stats.estimator.censored import censored_quantile
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.serving.goodput import fluidity_index, goodput, share, slo_standing, within
from twinlens.stats.serving.latency import chunking, gaps_s, latency
from twinlens.stats.serving.overload import in_flight
from twinlens.stats.serving.window import ServingLabel

SLO = Slo(ttft_s=0.1, tpot_s=0.02)


def every(requests: Requests) -> np.ndarray:
    return np.arange(len(requests))


def test_times_count_from_intent_and_those_from_send_stand_beside_them() -> None:
    # Due at 100 ms, sent 30 ms late, first of 5 tokens at 180 ms, last at 220 ms, over at 225 ms.
    one = columns([row(100, (180, 190, 200, 210, 220), sent_ms=130, end_ms=225)])
    times = latency(one, every(one))
    assert times.ttft_s == pytest.approx([0.080])
    assert times.ttft_from_send_s == pytest.approx([0.050])
    assert times.e2e_s == pytest.approx([0.125])
    assert times.e2e_from_send_s == pytest.approx([0.095])
    assert times.tpot_s == pytest.approx([0.010])
    assert times.longest_gap_s == pytest.approx([0.010])
    assert times.lag_s == pytest.approx([0.030])


def test_the_answer_begins_after_the_reasoning() -> None:
    """Due at 100 ms: reasoning at 130 and 150 ms, the answer at 190 and 200 ms."""
    thinks = row(100, (130, 150, 190, 200), reasoning_chunks=2)
    plain = row(100, (140, 150), reasoning_chunks=0)
    only_thinks = row(100, (130, 150), reasoning_chunks=2)
    rows = columns([thinks, plain, only_thinks, failed(100, 200, (130,)), row(100, (120,))])
    times = latency(rows, every(rows))
    assert times.ttfat_s == pytest.approx([0.090, 0.040, np.inf, np.inf, 0.020])
    assert times.ttft_s == pytest.approx([0.030, 0.040, 0.030, np.inf, 0.020])


def test_the_time_to_the_answer_stands_only_where_answers_hold_reasoning() -> None:
    thinks = columns([row(100 * n, (100 * n + 30, 100 * n + 50 + n % 7), reasoning_chunks=1) for n in range(60)])
    metrics = served_metrics(thinks)
    assert metrics["ttfat_s_p50"].value == pytest.approx(0.053)
    assert metrics["ttft_s_p50"].value == pytest.approx(0.030)
    plain = columns([row(100 * n, (100 * n + 30, 100 * n + 50), reasoning_chunks=0) for n in range(60)])
    assert not [name for name in served_metrics(plain) if name.startswith("ttfat")]


def test_a_run_older_than_the_count_of_reasoning_has_no_time_to_the_answer() -> None:
    rows = pa.Table.from_pylist([asdict(row(0, (10, 20)))], schema=REQUEST_SCHEMA).drop_columns(["reasoning_chunks"])
    older = Requests.from_table(rows)
    assert np.isnan(older.reasoning_chunks).all()
    assert older.first_answer_ns() == pytest.approx([10 * MS])


def test_a_wait_before_sending_is_split_into_policy_and_client() -> None:
    held = columns([row(100, (200,), released_ms=140, sent_ms=143), row(100, (200,), sent_ms=102)])
    times = latency(held, every(held))
    assert times.held_s[0] == pytest.approx(0.040)
    assert np.isnan(times.held_s[1])
    assert times.client_s == pytest.approx([0.003, 0.002])
    assert times.lag_s == pytest.approx([0.043, 0.002])


def test_a_request_that_was_never_sent_has_no_lag() -> None:
    refused = columns([failed(100, 101, sent_ms=-5000, outcome="refused")])
    assert np.isnan(latency(refused, every(refused)).lag_s).all()
    assert latency(refused, every(refused)).ttft_s[0] == np.inf


def test_whatever_is_not_ok_took_for_ever_even_where_its_first_tokens_came() -> None:
    rows = [failed(0, 50, (10, 20)), row(0, (10, 20), outcome="cut_off"), failed(0, 5, outcome="refused")]
    times = latency(columns(rows), np.arange(3))
    for name in ("ttft_s", "ttft_from_send_s", "tpot_s", "e2e_s", "e2e_from_send_s", "longest_gap_s"):
        assert np.isinf(getattr(times, name)).all(), name


def test_an_answer_of_one_token_has_no_time_per_output_token() -> None:
    one = columns([row(0, (10,))])
    assert np.isnan(latency(one, every(one)).tpot_s[0])
    assert latency(one, every(one)).longest_gap_s[0] == 0


def test_the_longest_gap_is_found_within_each_answer_only() -> None:
    rows = columns([row(0, (10, 20, 50)), row(0, (900,)), row(0, (1000, 1005, 1007)), row(5, (9000, 9001))])
    assert latency(rows, every(rows)).longest_gap_s == pytest.approx([0.030, 0.0, 0.005, 0.001])


def test_gaps_are_pooled_within_answers_in_the_order_asked_for() -> None:
    rows = columns([row(0, (10, 20, 50)), row(0, (900,)), row(0, (1000, 1005))])
    assert gaps_s(rows, np.array([2, 1, 0])) == pytest.approx([0.010, 0.030, 0.005])  # as they came, not row by row


def test_every_token_that_never_came_is_an_endless_gap() -> None:
    # Asked for 6, got 2: four gaps are missing. A failure that owes nothing still counts once.
    rows = columns([failed(0, 99, (10, 20), asked_tokens=6), failed(0, 99, (10, 20), asked_tokens=2)])
    assert gaps_s(rows, np.array([0])).tolist() == pytest.approx([0.010, *[np.inf] * 4])
    assert gaps_s(rows, np.array([1])).tolist() == pytest.approx([0.010, np.inf])
    refused = columns([failed(0, 1, outcome="refused", asked_tokens=4)])
    assert gaps_s(refused, np.array([0])).tolist() == [np.inf] * 3


@pytest.mark.parametrize(
    ("chunks", "tokens", "kind"),
    [
        ((1, 1, 1, 1), 4, "itl"),
        ((1, 1, 1), 4, "itl"),  # the end-of-text token is counted by the server and sent to nobody
        ((2, 2), 4, "icl"),
        ((4,), 4, "icl"),
    ],
)
def test_gaps_are_between_tokens_only_where_each_chunk_is_one(chunks, tokens, kind) -> None:
    rows = columns([row(0, range(10, 10 + len(chunks)), tokens=chunks, output_tokens=tokens)] * 3)
    assert chunking(rows, every(rows))[0] == kind


def test_one_token_in_a_thousand_may_share_a_chunk_and_not_two() -> None:
    exact = [row(0, range(10, 1010))] * 2
    one_short = row(0, range(10, 1008), output_tokens=1000)
    assert chunking(columns([*exact, one_short]), np.arange(3))[0] == "itl"
    assert chunking(columns([exact[0], *[one_short] * 3]), np.arange(4))[0] == "icl"


def test_itl_is_absent_and_says_why_where_chunks_carry_several_tokens() -> None:
    lumps = columns([row(10 * i, (10 * i + 5, 10 * i + 9), tokens=(4, 4)) for i in range(400)])
    metrics = served_metrics(lumps)
    assert metrics["itl_s_p50"].value is None
    assert "3200 tokens came in 800 chunks" in (metrics["itl_s_p50"].reason or "")
    assert metrics["icl_s_p50"].value == pytest.approx(0.004)
    plain = served_metrics(columns([row(10 * i, (10 * i + 5, 10 * i + 9)) for i in range(400)]))
    assert plain["itl_s_p50"].value == plain["itl_s_p90"].value == pytest.approx(0.004)
    assert "icl_s_p50" not in plain


def test_wrk2s_example_a_second_of_stall_shows_from_intent_and_not_from_send() -> None:
    """50 requests/s for a minute through one connection, each 10 ms long; the server stops for a second at 30 s.

    The connection works off the 50 requests that waited in another second, so 100 requests wait 0 to 1 s, evenly,
    and the 30 slowest of 3000 begin at 0.7 s. From send only one request was ever slow.
    """
    due = np.arange(3000) / 50
    needs = np.full(3000, 0.010)
    needs[1500] = 1.010
    metrics = served_metrics(queue(due, needs, 1, tokens=2, late=True), "whole")
    assert metrics["e2e_latency_s_p99"].value == pytest.approx(0.71, abs=0.03)
    assert metrics["e2e_from_send_s_p99"].value == pytest.approx(0.010, abs=1e-6)
    assert metrics["ttft_from_send_s_p99"].value == pytest.approx(0.005, abs=1e-6)
    assert metrics["client_lag_s_p99"].value == pytest.approx(0.70, abs=0.03)
    assert "p99 needs at least 368 independent values" in metrics["e2e_latency_s_p99"].lacks


def test_a_quantile_among_failures_is_absent_and_counts_them() -> None:
    values = np.full(1000, 0.5)
    values[:8] = np.inf
    quantile = censored_quantile(values, 0.99, unit="s", what="requests")
    assert quantile.value == 0.5
    values[:11] = np.inf
    beyond = censored_quantile(values, 0.99, unit="s", what="requests")
    assert beyond.value is None
    assert beyond.reason == "p99 falls among the 11 of 1000 requests that failed"
    assert censored_quantile(np.full(9, np.inf), 0.5, unit="s", what="requests").value is None


def test_an_upper_bound_among_failures_is_left_open() -> None:
    values = np.random.default_rng(1).permutation(np.r_[np.linspace(0.1, 1, 995), np.full(5, np.inf)])
    quantile = censored_quantile(values, 0.99, unit="s", what="requests")
    assert quantile.value is not None
    assert quantile.low is not None
    assert quantile.high is None
    assert "the upper bound falls among them" in quantile.method


@pytest.mark.parametrize("bad", [np.nan, -1.0])
def test_a_censored_quantile_refuses_what_is_no_time(bad) -> None:
    with pytest.raises(ValueError, match="from 0 up"):
        censored_quantile([1.0, bad], 0.5, unit="s", what="requests")


def test_a_good_request_keeps_every_limit_and_a_failed_one_none() -> None:
    rows = [
        row(0, (50, 60, 70)),  # good
        row(0, (150, 160, 170)),  # first token late
        row(0, (50, 60, 160)),  # (160 - 50) / 2 = 55 ms per token
        row(0, (50,)),  # one token: no time per token to miss
        failed(0, 20, (5, 6)),
    ]
    kept = within(latency(columns(rows), np.arange(5)), SLO)
    assert kept["ttft_s"].tolist() == [True, False, True, True, False]
    assert kept["tpot_s"].tolist() == [True, True, False, True, False]


def test_goodput_is_good_requests_over_the_window_and_failures_stay_in_the_denominator() -> None:
    # 100 requests in 10 s; of every ten, one is late and one fails.
    first = {at: at + (150 if at % 1000 == 700 else 50) for at in range(0, 10_001, 100)}
    rows = [failed(at, at + 5) if at % 1000 == 300 else row(at, (to, to + 10)) for at, to in first.items()]
    requests = columns(rows)
    found = goodput(latency(requests, np.arange(101)), SLO, requests.intended_ns, 0, 10_000_000_000)
    assert found["goodput_per_s"].value == pytest.approx(8.1 * 100 / 101)  # of (n - 1) / n, as the rate offered
    assert found["slo_attainment"].value == pytest.approx(81 / 101)
    assert found["ttft_s_within"].value == pytest.approx(81 / 101)
    assert found["tpot_s_within"].value == pytest.approx(91 / 101)
    without = goodput(latency(requests, np.arange(101)), None, requests.intended_ns, 0, 1)
    assert without["goodput_per_s"].reason == "the workload names no SLO"


def test_requests_in_flight_that_decide_nothing_cost_a_share_nothing() -> None:
    made = served(np.random.default_rng(32), 8.0, 1000, 16, 1.0, 2000)
    times = latency(made, every(made))
    slo = Slo(e2e_latency_s=4.0, quantile=0.95)
    found = goodput(times, slo, made.intended_ns, int(made.intended_ns[0]), int(made.intended_ns[-1]))
    assert (found["slo_attainment"].n or 0) > 700
    assert slo_standing(found, slo) == "pass"


def test_a_share_has_the_exact_binomial_interval() -> None:
    # Clopper & Pearson for 5 of 10: 0.1871 to 0.8129 (their tables).
    half = share(np.array([True, False, False, True, True, False, True, False, False, True]), "x")
    assert (half.low, half.high) == (pytest.approx(0.1871, abs=1e-4), pytest.approx(0.8129, abs=1e-4))


@pytest.mark.parametrize("hits", [np.ones(1000, bool), np.zeros(1000, bool)])
def test_a_share_of_requests_that_are_all_alike_has_no_interval(hits: np.ndarray) -> None:
    """It was 99.6 to 100 %: where 1 % miss in bursts of 20, three runs in five see none, and were wrong."""
    part = share(hits, "x")
    assert (part.value, part.low, part.high, part.n) == (float(hits[0]), None, None, 1000)
    assert "all requests are alike" in part.lacks


def test_a_run_without_a_miss_passes_where_its_requests_are_enough() -> None:
    slo = Slo(ttft_s=0.1)
    assert slo_standing({"ttft_s_within": share(np.ones(368, bool), "x")}, slo) == "pass"
    assert slo_standing({"ttft_s_within": share(np.ones(367, bool), "x")}, slo) == "inconclusive"
    assert slo_standing({"ttft_s_within": share(np.zeros(9, bool), "x")}, slo) == "fail"


def test_misses_that_come_together_are_worth_fewer_requests() -> None:
    spread, bunched = np.ones(1000, bool), np.ones(1000, bool)
    spread[::20] = False
    bunched[300:350] = False
    even, burst = share(spread, "x"), share(bunched, "x")
    assert even.value == burst.value
    assert burst.n < even.n / 5
    assert burst.high - burst.low > even.high - even.low


def test_a_run_meets_its_slo_only_beyond_doubt() -> None:
    def of(low: float, high: float) -> dict[str, Estimate]:
        return {"ttft_s_within": Estimate(low, "1", "m", "measured", low, high, 0.95)}

    slo = Slo(ttft_s=0.1)
    assert slo_standing(of(0.991, 1.0), slo) == "pass"
    assert slo_standing(of(0.97, 0.989), slo) == "fail"
    assert slo_standing(of(0.98, 0.999), slo) == "inconclusive"
    assert slo_standing({}, slo) == "inconclusive"
    both = of(0.991, 1.0) | {"tpot_s_within": Estimate(0.5, "1", "m", "measured", 0.4, 0.6, 0.95)}
    assert slo_standing(both, Slo(ttft_s=0.1, tpot_s=0.1)) == "fail"


def test_in_flight_is_littles_law() -> None:
    # Two requests: [0, 4) and [1, 3). Means over [0,2), [2,4), [4,6): (2 + 1)/2, (2 + 1)/2, 0.
    begin, end = np.array([0, 1]), np.array([4, 3])
    assert in_flight(begin, end, np.array([0, 2, 4, 6])).tolist() == [1.5, 1.5, 0.0]


def test_tokens_count_when_they_came_whoever_asked_and_failed_answers_give_none() -> None:
    # A token each 10 ms for a second from two answers, one of which fails: only one stream counts.
    stream = np.arange(0, 1000, 10)
    rows = [row(0, stream), failed(0, 1000, stream), *[row(i, (i + 1,)) for i in range(0, 1001, 100)]]
    metrics = served_metrics(columns(rows), devices=2)
    wall_s = 1.001
    assert metrics["output_tokens_per_s"].value == pytest.approx(111 / wall_s)
    assert metrics["total_tokens_per_s"].value == pytest.approx((111 + 12 * 10) / wall_s)
    assert metrics["output_tokens_per_s_per_device"].value == pytest.approx(111 / wall_s / 2)
    assert metrics["requests_per_s"].value == pytest.approx(12 / wall_s)
    assert metrics["failed_share"].value == pytest.approx(1 / 13)
    assert served_metrics(columns(rows))["output_tokens_per_s_per_device"].value is None


def test_the_servers_count_of_tokens_is_spread_over_chunks() -> None:
    rows = [row(0, (0, 1000), output_tokens=10), row(1000, (2000,), output_tokens=3)]
    metrics = served_metrics(columns(rows))
    assert metrics["output_tokens_per_s"].value == pytest.approx(13 / 2.0)


def test_the_offered_rate_is_gaps_over_time() -> None:
    metrics = served_metrics(columns([row(at, (at + 5, at + 6)) for at in range(0, 10_001, 250)]))
    assert metrics["offered_requests_per_s"].value == pytest.approx(4.0)
    at_once = served_metrics(columns([row(0, (5, 6 + i)) for i in range(50)]))
    assert at_once["offered_requests_per_s"].reason == "all requests were due at one moment"


def test_quantiles_are_given_only_where_n_affords_them() -> None:
    metrics = served_metrics(columns([row(10 * i, (10 * i + 5, 10 * i + 6)) for i in range(100)]))
    assert metrics["ttft_s_p90"].value == pytest.approx(0.005)
    assert metrics["ttft_s_p99"].lacks == "p99 needs at least 368 values, there are 100"


def test_fluidity_tells_one_stall_from_a_slow_answer() -> None:
    """Deadlines at 100 ms and each 20 ms after. Slack of early tokens carries over; a late one starts anew."""
    steady = row(0, np.arange(100, 300, 20))  # ten tokens, each exactly on time
    early = row(0, (10, 12, 14, 16, 160))  # 90 + 3·18 ms of slack and 20 ms more cover a gap of 144 ms
    stall = row(0, (100, 120, 140, 201, 221))  # a gap of 61 ms misses the deadlines at 160, 180 and 200 ms
    slow = row(0, np.arange(100, 100 + 25 * 5, 25))  # every gap of 25 ms misses one deadline
    late_first = row(0, (145, 165))  # 45 ms late at 20 ms each: three deadlines missed
    rows = columns([steady, early, stall, slow, late_first])
    index = fluidity_index(rows, np.arange(5), 0.1, 0.02)
    assert index == pytest.approx([1.0, 1.0, 4 / 7, 1 / 5, 1 / 4])


def test_tokens_that_share_a_chunk_come_at_one_moment_and_leave_slack() -> None:
    # 4 tokens each 80 ms at 20 ms per token: always just in time.
    lumps = columns([row(0, (100, 180, 260), tokens=(4, 4, 4)), row(0, (100, 181, 260), tokens=(4, 4, 4))])
    assert fluidity_index(lumps, np.arange(2), 0.1, 0.02) == pytest.approx([1.0, 11 / 12])


def test_a_failed_answer_is_not_fluid_and_without_limits_there_is_no_index() -> None:
    rows = [row(10 * i, (10 * i + 5, 10 * i + 6)) for i in range(50)] + [failed(i, 20, (3, 4)) for i in range(50)]
    assert served_metrics(columns(rows), slo=SLO)["fluidity_index"].value == pytest.approx(0.5)
    assert served_metrics(columns(rows), slo=SLO)["fluid_share"].value == pytest.approx(0.5)
    assert "ttft_s and tpot_s" in (served_metrics(columns(rows), slo=Slo(ttft_s=1))["fluidity_index"].reason or "")


def test_every_metric_of_a_served_run_is_defined_and_every_label_explained() -> None:
    metrics = served_metrics(queue(poisson(12, 500, 2), np.full(500, 0.4), 8), "open", SLO, 1)
    assert set(metrics) <= set(METRICS)
    for name, estimate in metrics.items():
        assert estimate.unit == METRICS[name].unit, name
    assert {find(label).kind for label in (*get_args(get_args(ServingLabel)[1]), "invalid")} == {"labels"}


def test_images_have_no_tokens_and_keep_their_latency() -> None:
    rows = [row(10 * i, (10 * i + 5,), tokens=(0,), output_tokens=0) for i in range(50)]
    metrics = served_metrics(columns(rows))
    assert metrics["e2e_latency_s_p50"].value == pytest.approx(0.005)
    assert "ttft_s_p50" not in metrics


def test_a_queue_exactly_at_its_limit_passes_in_at_most_one_run_in_forty() -> None:
    """M/M/1, whose stays are exponential: p95 and p99 at loads 0.5 to 0.9. The hits alone passed 16 to 94 % of runs."""
    rng = np.random.default_rng(3)
    for load, quantile, n in ((0.5, 0.99, 1000), (0.8, 0.95, 1000), (0.8, 0.99, 1000), (0.9, 0.95, 1000)):
        limit = -np.log(1 - quantile) / (1 - load)
        passed = covers = given = alone = 0
        for _ in range(120):
            times = stays(rng, n, load)
            part = share(times <= limit, "x", {"e2e_latency_s": times})
            passed += passes(part, quantile)
            given += part.low is not None
            covers += part.low is not None and part.low <= quantile <= part.high
            alone += passes(share(times <= limit, "x"), quantile)
        assert passed <= 0.045 * 120  # 2.5 %, and what chance adds to 120 runs
        assert covers >= 0.93 * given
        assert alone > passed


def passes(found: Estimate, quantile: float) -> bool:
    return slo_standing({"e2e_latency_s_within": found}, Slo(e2e_latency_s=1, quantile=quantile)) == "pass"


def test_a_quiet_server_still_passes() -> None:
    rng = np.random.default_rng(4)
    passed = 0
    for _ in range(100):
        times = rng.exponential(1.0, 1000)
        passed += passes(share(times <= 9, "x", {"e2e_latency_s": times}), 0.99)
    assert passed > 90


def test_what_is_judged_independent_reads_through_a_giant_and_through_failures() -> None:
    times = stays(np.random.default_rng(5), 2000, 0.9)
    calm = share(np.ones(2000, bool), "x", {"t": times}).n
    times[700] = 1e6
    assert share(np.ones(2000, bool), "x", {"t": times}).n < 2.5 * calm
    times[700] = np.inf
    assert share(np.ones(2000, bool), "x", {"t": times}).n < 2.5 * calm
    assert share(np.zeros(9, bool), "x", {"t": np.full(9, np.inf)}).value == 0.0


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.booleans()), min_size=2, max_size=60),
)
def test_goodput_is_never_above_what_was_offered(rows) -> None:
    due = sorted(begin / MS for begin, _, _ in rows)
    requests = columns(
        [row(at, (at + took / MS,)) if ok else failed(at, at + 1) for at, (_, took, ok) in zip(due, rows, strict=True)]
    )
    metrics = served_metrics(requests, slo=Slo(e2e_latency_s=0.5))
    good, offered = metrics.get("goodput_per_s"), metrics["offered_requests_per_s"].value
    if good is not None and good.value is not None and offered is not None:
        assert good.value <= offered * (1 + 1e-9)
