"""A served run on disk, summarised as any run is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from material import inference, spec_of
from served_rows import columns, failed, row
from twinlens.record.request import Request
from twinlens.record.run import Run
from twinlens.record.store import create_run, end_run, open_rows, read_run, update_run
from twinlens.reporting.wording.finding import clause_of
from twinlens.stats.run_summary import from_json, summarise, to_json
from twinlens.stats.summary.serving import peers

SERVED = {"arrival": {"kind": "constant"}, "slo": {"ttft_s": 0.05, "tpot_s": 0.02}}
CLIENT = {"stamps": "kernel", "merged_reads": 0}
CERTIFICATE = {"ceiling_tokens_per_s": 100_000.0, "added_latency_s": 0.00005, "lag_s_p99": 0.0005}


def steady(count: int = 400, late_ms: float = 0.0, **more: Any) -> list[Request]:
    """20 requests/s, each with its first token 30 ms after sending and two more 10 ms apart."""
    rows = []
    for i in range(count):
        sent = 50 * i + late_ms + (i % 7) * 0.02  # a little jitter, as real clocks have
        rows.append(row(50 * i, (sent + 30, sent + 40, sent + 50), sent_ms=sent, lag_ns=20_000, merged_reads=0, **more))
    return rows


def recorded(parent: Path, rows: list[Request], workload: dict[str, Any] | None = None, **known: Any) -> Run:
    """A finished run folder with these rows; `known` goes into run.json."""
    asked = inference(kind="fake", **(workload or SERVED | {"point": {"rate_per_s": 20}}))
    spec = spec_of(asked)
    folder = create_run(parent, spec)
    writer = open_rows(folder, spec)
    writer.add_all(rows)
    writer.close()
    update_run(folder, **known)
    end_run(folder, "finished")
    return read_run(folder)


def test_a_served_run_is_summarised_by_intent_and_may_be_ranked(tmp_path: Path) -> None:
    summary = summarise(recorded(tmp_path, steady()))
    assert summary.verdict.validity == "valid"
    found = summary.metrics
    assert found["ttft_s_p50"].value == pytest.approx(0.030, abs=1e-3)
    assert found["goodput_per_s"].value == pytest.approx(20, rel=0.01)
    assert found["offered_requests_per_s"].value == pytest.approx(20)
    assert found["slo_attainment"].value == 1.0
    assert "client_load" not in found  # no client over a network was recorded
    assert summary.point["rate_per_s"] == 20
    assert from_json(to_json(summary)) == summary


def test_a_lockstep_run_is_summarised_as_before(tmp_path: Path) -> None:
    rows = [row(i * 60, (i * 60 + 30, i * 60 + 40), group=i) for i in range(60)]
    run = recorded(tmp_path, rows, {"arrival": {"kind": "lockstep"}})
    summary = summarise(run)
    assert "decode_tokens_per_s" in summary.metrics
    assert "offered_requests_per_s" not in summary.metrics
    assert peers(run) == {}


def test_a_client_that_was_in_time_leaves_the_verdict_and_its_certificate_is_shown(tmp_path: Path) -> None:
    run = recorded(tmp_path, steady(), client=CLIENT, calibration=CERTIFICATE)
    summary = summarise(run)
    assert summary.verdict.validity == "valid"
    assert summary.metrics["client_load"].value == pytest.approx(60 / 100_000, rel=0.02)
    assert summary.metrics["read_lag_s_p99"].value == pytest.approx(20e-6)
    assert summary.metrics["arrival_distance"].value == 0


def test_a_client_that_was_late_makes_the_run_invalid_and_says_so(tmp_path: Path) -> None:
    run = recorded(tmp_path, steady(late_ms=8.0), client=CLIENT, calibration=CERTIFICATE)
    summary = summarise(run)
    assert (summary.verdict.label, summary.verdict.validity) == ("invalid", "not valid")
    assert "Requests were sent late (p50 8.06 ms)" in clause_of(summary.verdict.reason)
    assert summary.verdict.reason in summary.disqualified
    assert summary.metrics["ttft_s_p50"].value == pytest.approx(0.038, abs=1e-3)


def test_an_uncalibrated_client_is_noted(tmp_path: Path) -> None:
    summary = summarise(recorded(tmp_path, steady(), client=CLIENT))
    assert summary.verdict.validity == "valid"
    assert "not-calibrated" in [finding.code for finding in summary.findings]


def test_failures_stay_in_the_denominator(tmp_path: Path) -> None:
    rows = steady()
    rows[::4] = [failed(r.intended_ns / 1e6, r.intended_ns / 1e6 + 1, asked_tokens=3) for r in rows[::4]]
    summary = summarise(recorded(tmp_path, rows))
    assert summary.metrics["slo_attainment"].value == pytest.approx(0.75, abs=0.01)
    assert summary.metrics["goodput_per_s"].value == pytest.approx(15, rel=0.02)
    assert summary.metrics["ttft_s_p50"].value == pytest.approx(0.030, abs=1e-3)
    assert "falls among the" in (summary.metrics["ttft_s_p90"].reason or "")


def test_a_run_without_rows_says_so(tmp_path: Path) -> None:
    summary = summarise(recorded(tmp_path, []))
    assert (summary.verdict.label, summary.verdict.validity, summary.rows) == ("too short", "not valid", 0)


def test_other_tools_numbers_come_from_the_same_rows_and_stand_apart(tmp_path: Path) -> None:
    run = recorded(tmp_path, steady())
    found = peers(run)
    assert found["vllm.mean_tpot_ms"].value == pytest.approx(10.0)
    assert found["guidellm.time_per_output_token_ms_mean"].value == pytest.approx(50 / 3, rel=1e-6)
    assert not set(found) & set(summarise(run).metrics)


def test_columns_made_by_hand_and_columns_read_back_agree(tmp_path: Path) -> None:
    rows = steady(30)
    read, made = recorded(tmp_path, rows).requests, columns(rows)
    assert (read.chunk_ns == made.chunk_ns).all()
    assert (read.asked_tokens.size, len(read)) == (30, 30)
