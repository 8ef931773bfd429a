"""Requests that keep an SLO: their rate, their share and its interval, and fluidity, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.coverage.truths import served, stays
from hypothesis import given, settings
from hypothesis import strategies as st

from served_rows import MS, columns, failed, row, served_metrics
from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.spec.slo import Slo
from twinlens.stats.serving.goodput import fluidity_index, goodput, share, slo_standing, within
from twinlens.stats.serving.latency import latency

SLO = Slo(ttft_s=0.1, tpot_s=0.02)


def every(requests: Requests) -> np.ndarray:
    return np.arange(len(requests))


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
