"""Whether the client was good enough: each rule from both sides of its threshold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from served_rows import poisson, queue
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.client import (
    MOST_LAG_SHARE,
    MOST_LOAD,
    ArrivalFit,
    Calibration,
    ClientVerdict,
    Observed,
    arrival_fit,
    client_verdict,
    observe,
)
from twinlens.stats.serving.metrics import serving_metrics
from twinlens.stats.serving.window import find_window

CERTIFICATE = Calibration(ceiling_tokens_per_s=100_000, added_latency_s=0.00004, lag_s_p99=0.0004)
GOOD = Observed(
    tokens_per_s=10_000,
    sent_late_s=np.full(1000, 0.0001),
    read_lag_s=np.full(1000, 0.0001),
    ttft_s={0.5: 0.1, 0.9: 0.1, 0.99: 0.1},
    gap_s=0.01,
    chunks=100_000,
    merged_reads=0,
    stamped_by_kernel=False,
)
PLANNED = np.rint(poisson(40, 2000, 7) * 1e9).astype(np.int64)


def verdict(calibration: Calibration | None = CERTIFICATE, **changed: object) -> ClientVerdict:
    return client_verdict(replace(GOOD, **changed), calibration)  # type: ignore[arg-type]


def test_a_client_well_below_its_ceiling_and_in_time_is_valid() -> None:
    ruling = verdict()
    assert (ruling.valid, ruling.reasons, ruling.notes) == (True, (), ())
    assert ruling.metrics["client_load"].value == pytest.approx(0.1)
    assert ruling.metrics["read_lag_s_p99"].value == pytest.approx(0.0001)


def test_without_a_certificate_a_run_is_valid_and_says_that_the_ceiling_is_unknown() -> None:
    ruling = verdict(None)
    assert ruling.valid
    assert "not calibrated" in sentence_of(ruling.notes[0])
    assert ruling.metrics["client_load"].value is None


def test_near_its_ceiling_a_client_measures_itself() -> None:
    assert verdict(tokens_per_s=100_000 * MOST_LOAD).valid
    ruling = verdict(tokens_per_s=71_000)
    assert not ruling.valid
    assert "71 % of the 100,000" in sentence_of(ruling.reasons[0])


def test_sending_late_is_held_against_the_time_to_first_token() -> None:
    assert verdict(sent_late_s=np.full(1000, 0.1 * MOST_LAG_SHARE)).valid
    ruling = verdict(sent_late_s=np.full(1000, 0.0101))
    assert not ruling.valid
    assert "Requests were sent late (p50 10.1 ms): more than 10 %" in sentence_of(ruling.reasons[0])


def test_a_few_late_requests_do_not_reach_the_p99() -> None:
    late = np.full(1000, 0.0001)
    late[::200] = 0.5  # five in a thousand
    assert verdict(sent_late_s=late).valid
    late[::50] = 0.5
    assert not verdict(sent_late_s=late).valid


@pytest.mark.parametrize("kind", ["sent_late_s", "read_lag_s"])
def test_a_client_that_stood_still_for_a_second_is_invalid_whatever_its_quantiles_say(kind: str) -> None:
    """Stopped for a second in ten minutes at 10 requests/s: 10 of 6,000 were late, and p99 did not see them."""
    late = np.full(6000, 0.0001)
    late[3000:3010] = np.linspace(1.0, 0.1, 10)
    late[5] = np.nan
    ruling = verdict(**{kind: late}, stamped_by_kernel=True)
    assert not ruling.valid
    assert "The client stopped for a while" in sentence_of(ruling.reasons[0])
    assert "1.00 s late" in sentence_of(ruling.reasons[0])
    late[3000:3010] = 0.4
    assert verdict(**{kind: late}, stamped_by_kernel=True).valid


def test_a_millisecond_matters_where_requests_come_every_few() -> None:
    late = np.full(1000, 0.0011)
    assert verdict(sent_late_s=late, mean_gap_s=0.025).valid
    ruling = verdict(sent_late_s=late, mean_gap_s=0.0025)
    assert not ruling.valid
    assert "every 2.50 ms" in sentence_of(ruling.reasons[0])


def test_reading_late_spoils_times_unless_the_kernel_stamped_them() -> None:
    slow = np.full(1000, 0.0011)  # more than a tenth of the gap of 10 ms
    assert not verdict(read_lag_s=slow).valid
    stamped = verdict(read_lag_s=slow, stamped_by_kernel=True)
    assert stamped.valid
    assert "times are the kernel's" in sentence_of(stamped.notes[0])
    assert verdict(read_lag_s=np.full(1000, 0.00099)).valid


def test_chunks_that_a_late_client_merged_have_lost_their_times() -> None:
    slow = {"read_lag_s": np.full(1000, 0.0011), "stamped_by_kernel": True}
    assert verdict(merged_reads=1000, **slow).valid
    ruling = verdict(merged_reads=1100, **slow)
    assert not ruling.valid
    assert "merged 1.1 % of the chunks" in sentence_of(ruling.reasons[0])
    # A server that sends in lumps to a client in time is no fault of the client.
    assert verdict(merged_reads=50_000, stamped_by_kernel=True).valid


def test_a_client_that_cannot_say_how_late_it_reads_is_not_accused_of_it() -> None:
    ruling = verdict(read_lag_s=np.full(1000, np.nan))
    assert ruling.valid
    assert ruling.metrics["read_lag_s_p99"].reason == "this client does not record when bytes arrived"


def test_lateness_is_held_against_the_same_quantile_and_only_those_that_are_given() -> None:
    late = np.full(50, 0.0001)
    late[7] = 0.02
    assert verdict(sent_late_s=late, ttft_s={0.5: 0.1, 0.9: 0.1}).valid  # no p99 is given, so none is spoilt
    late[:10] = 0.02
    assert "(p90 20.0 ms)" in sentence_of(verdict(sent_late_s=late, ttft_s={0.5: 0.1, 0.9: 0.1}).reasons[0])
    assert verdict(sent_late_s=late, ttft_s={0.5: 0.1, 0.9: 0.3}).valid


def test_arrivals_on_time_are_on_plan() -> None:
    jitter = np.random.default_rng(1).exponential(0.0005e9, PLANNED.size).astype(np.int64)
    fit = arrival_fit(PLANNED, PLANNED + jitter)
    assert fit is not None
    assert fit.p > 0.99
    assert fit.rate_ratio == pytest.approx(1, abs=1e-3)
    assert fit.planned_dispersion == pytest.approx(1, abs=0.35)  # Poisson
    assert fit.achieved_dispersion == pytest.approx(fit.planned_dispersion, abs=0.02)
    assert verdict(arrivals=fit).valid


def test_constant_arrivals_with_a_little_jitter_are_on_plan() -> None:
    planned = np.arange(1000) * 25_000_000
    sent = planned + np.random.default_rng(2).integers(0, 400_000, 1000)
    fit = arrival_fit(planned, sent)
    assert fit is not None
    assert fit.statistic == 0.0
    assert fit.planned_dispersion == pytest.approx(0, abs=0.02)
    assert verdict(arrivals=fit).valid


def test_another_rate_is_off_plan() -> None:
    fit = arrival_fit(PLANNED, (PLANNED * 1.05).astype(np.int64))
    assert fit is not None
    ruling = verdict(arrivals=fit)
    assert not ruling.valid
    assert "95.2 % of the planned rate" in sentence_of(ruling.reasons[0])


def test_bursts_at_the_right_rate_are_off_plan() -> None:
    """Requests that leave in batches of twenty, when the last of them is due."""
    batch = PLANNED.reshape(-1, 20)
    sent = np.repeat(batch[:, -1], 20)
    fit = arrival_fit(PLANNED, sent)
    assert fit is not None
    assert fit.p < 1e-6
    assert fit.achieved_dispersion is not None
    assert fit.achieved_dispersion > 5
    ruling = verdict(arrivals=fit)
    assert any("differ from the plan" in sentence_of(reason) for reason in ruling.reasons)
    assert any("bursts" in sentence_of(reason) for reason in ruling.reasons)


def test_without_jitter_the_distance_is_that_of_kolmogorov_and_smirnov(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlens.stats.client.JITTER_SHARE", 0.0)
    random = np.random.default_rng(3)
    a, b = (np.cumsum(random.integers(1, 10**9, 300)) for _ in range(2))
    fit = arrival_fit(a, b)
    assert fit is not None
    assert fit.statistic == pytest.approx(kstest(np.diff(a), np.diff(b)).statistic, abs=1e-12)


def test_too_few_arrivals_or_all_at_once_have_no_fit() -> None:
    assert arrival_fit(np.array([0, 5]), np.array([0, 5])) is None
    assert arrival_fit(np.zeros(100, np.int64), np.arange(100)) is None
    few = arrival_fit(PLANNED[:300], PLANNED[:300])
    assert few is not None
    assert few.planned_dispersion is None


def test_what_a_run_says_of_its_client_comes_from_its_rows() -> None:
    requests = queue(poisson(12, 1000, 2), np.full(1000, 0.4), 8)
    window = find_window(requests, "open")
    assert window is not None
    metrics = serving_metrics(requests, window, None, None)
    lag = np.full(1000, 50_000.0)
    seen = observe(requests, window, metrics, loop="open", read_lag_ns=lag, merged_reads=3, stamped_by_kernel=True)
    assert seen.gap_s == pytest.approx(0.05)
    assert seen.mean_gap_s == pytest.approx(1 / 12, rel=0.1)
    assert seen.arrivals is not None
    assert seen.arrivals.statistic == 0
    assert client_verdict(seen, CERTIFICATE).valid
    closed = observe(requests, window, metrics, loop="closed", read_lag_ns=lag, merged_reads=3, stamped_by_kernel=True)
    assert closed.arrivals is None


def test_every_reason_is_given_and_none_hides_another() -> None:
    fit = ArrivalFit(0.4, 1e-9, 1.0, 6.0, 0.5, 1000)
    ruling = verdict(tokens_per_s=99_000, sent_late_s=np.full(1000, 1.0), read_lag_s=np.full(1000, 1.0), arrivals=fit)
    assert len(ruling.reasons) == 7
