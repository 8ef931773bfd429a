"""Which requests of a served run count, and when it is called overloaded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from served_rows import columns, failed, poisson, queue, row, served_metrics, whole
from twinlens.reporting.wording.finding import clause_of
from twinlens.spec.slo import Slo
from twinlens.stats.serving.metrics import serving_metrics
from twinlens.stats.serving.window import find_window

SLO = Slo(ttft_s=0.1, tpot_s=0.02)


def test_a_queue_below_capacity_is_steady_and_one_above_is_overloaded() -> None:
    needs = np.random.default_rng(3).uniform(0.4, 0.6, 2000)
    calm = whole(queue(poisson(8, 2000, 1), needs, 8), "open")  # half of capacity
    assert calm.validity == "valid"
    assert calm.in_flight_slope_per_s is None
    rate_per_s = 24.0  # 8 slots of half a second take 16 a second: eight a second stay behind
    growing = whole(queue(poisson(rate_per_s, 2000, 1), needs, 8), "open")
    assert (growing.label, growing.validity) == ("overload", "not valid")
    assert growing.in_flight_slope_per_s == pytest.approx(8.0, rel=0.15)
    assert "the server does not keep up" in clause_of(growing.reason)


def test_overload_says_when_it_is_the_clients_or_the_policys() -> None:
    needs = np.full(2000, 0.5)
    late = queue(poisson(24, 2000, 1), needs, 8, late=True)
    assert "the client is overloaded, not the server" in clause_of(whole(late, "open").reason)
    held = replace(late, released_ns=late.sent_ns.astype(float))
    assert "in the admission policy" in clause_of(whole(held, "open").reason)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_a_stable_queue_is_never_called_overloaded(load: float) -> None:
    needs = np.random.default_rng(5).gamma(4, 0.125, 600)
    labels = {whole(queue(poisson(16 * load, 600, seed), needs, 8), "open").label for seed in range(25)}
    assert "overload" not in labels


def test_one_stall_is_no_overload() -> None:
    due = np.arange(3000) / 50
    needs = np.full(3000, 0.010)
    needs[1500] = 5.0
    assert whole(queue(due, needs, 1), "open").label != "overload"


@pytest.mark.parametrize(("failed", "validity"), [(4, "valid"), (6, "not valid")])
def test_a_run_in_which_more_than_one_request_in_twenty_fails_is_not_ranked(failed: int, validity: str) -> None:
    steady = columns(row(100 * i, (100 * i + 50, 100 * i + 60)) for i in range(100))
    outcome = steady.outcome.copy()
    outcome[10 : 10 + 8 * failed : 8] = "failed"
    window = whole(replace(steady, outcome=outcome), "closed")
    counted = int((outcome[window.rows] != "ok").sum())
    assert (window.validity, counted) == (validity, failed)
    assert (window.label == "failing") is ("requests failed" in clause_of(window.reason)) is (validity == "not valid")


def test_a_closed_loop_is_never_overloaded() -> None:
    needs = np.random.default_rng(3).uniform(0.4, 0.6, 2000)
    assert whole(queue(poisson(24, 2000, 1), needs, 8), "closed").label != "overload"


def test_the_window_begins_when_the_server_has_filled_up_and_goes_by_intent() -> None:
    needs = np.full(500, 1.0)
    needs[:100] = 2.0  # a cold server
    requests = queue(np.arange(500) / 10, needs, 100)
    window = whole(requests, "open")
    assert window.label == "warm-up"
    assert 9.0e9 <= window.begin_ns <= 11.0e9
    assert window.end_ns == requests.intended_ns[-1]
    assert (requests.intended_ns[window.rows] >= window.begin_ns).all()
    assert window.rows.size == 500 - window.first
    metrics = serving_metrics(requests, window, None, None)
    assert metrics["e2e_latency_s_p50"].value == pytest.approx(1.0)
    assert metrics["output_tokens_per_s"].value == pytest.approx(80, rel=0.02)  # the drain lowers no rate


def test_failures_at_the_start_stay_inside_the_window() -> None:
    good = queue(np.arange(400) / 10, np.random.default_rng(1).uniform(0.09, 0.11, 400), 4)
    outcome = good.outcome.copy()
    outcome[:120] = "failed"
    window = whole(replace(good, outcome=outcome), "open")
    assert window.first == 0
    assert serving_metrics(replace(good, outcome=outcome), window, None, None)["failed_share"].value == 0.3


def test_failures_during_warm_up_are_named() -> None:
    needs = np.full(500, 1.0)
    needs[:100] = 2.0
    good = queue(np.arange(500) / 10, needs, 100)
    outcome = good.outcome.copy()
    outcome[20:70] = "failed"
    window = whole(replace(good, outcome=outcome), "open")
    assert window.label == "warm-up"
    assert "requests before it 50 failed" in clause_of(window.reason)


def test_rows_may_lie_in_the_order_in_which_they_ended() -> None:
    requests = queue(poisson(12, 800, 2), np.random.default_rng(1).gamma(2, 0.25, 800), 8)
    order = np.argsort(requests.end_ns, kind="stable")
    shuffled = replace(
        requests,
        **{
            name: getattr(requests, name)[order]
            for name in ("group", "intended_ns", "sent_ns", "end_ns", "input_tokens", "output_tokens", "outcome")
        },
        chunk_ns=requests.chunk_ns.reshape(800, 8)[order].ravel(),
    )
    one, other = served_metrics(requests, "open", SLO), served_metrics(shuffled, "open", SLO)
    assert one.keys() == other.keys()
    for name in one:
        assert (one[name].value or 0.0) == pytest.approx(other[name].value or 0.0, rel=1e-9), name


def test_too_few_or_too_short_is_said() -> None:
    assert find_window(columns([]), "open") is None
    assert whole(columns([row(0, (500, 900)), row(10, (600, 950))]), "open").label == "too short"
    rows = [failed(10 * i, 10 * i + 1) for i in range(100)]
    assert "0 of 100 requests ended well" in clause_of(whole(columns(rows), "open").reason)


def test_a_trace_of_two_requests_is_too_short_as_any_run_of_two_is() -> None:
    """Two requests of a trace were "ranked: whole run"."""
    for count, label in ((2, "too short"), (19, "too short"), (20, "whole run")):
        window = whole(columns([row(0, (5, 6 + i)) for i in range(count)]), "whole")
        assert (window.label, window.validity) == (label, "valid" if count >= 20 else "not valid")
    assert "at least 20 are needed" in clause_of(whole(columns([row(0, (5, 6))] * 2), "whole").reason)


def test_load_that_changes_by_design_counts_whole() -> None:
    window = whole(columns([row(0, (5, 6 + i)) for i in range(50)]), "whole")
    assert (window.label, window.validity, window.first, window.end_ns) == ("whole run", "valid", 0, 55_000_000)
