"""Times, gaps, tokens and rates of a served run, by hand."""

from __future__ import annotations

from dataclasses import asdict
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest

from served_rows import MS, columns, failed, poisson, queue, row, served_metrics
from twinlens.pages import find
from twinlens.record.request import REQUEST_SCHEMA, Requests
from twinlens.spec.slo import Slo
from twinlens.stats.estimator.quantile import censored_quantile
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.serving.latency import chunking, gaps_s, latency
from twinlens.stats.serving.window import ServingLabel
from twinlens.stats.steady.slope import in_flight

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
