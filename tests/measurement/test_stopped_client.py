"""A load generator that was stopped in mid-run: what it measured is not ranked, however few requests it concerns."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from test_measure_study import begun

from material import inference
from twinlens.measurement.summary_file import summary_of
from twinlens.network.null_server import null_server
from twinlens.record.store import read_run


@pytest.mark.alone
@pytest.mark.slow
def test_a_client_that_was_stopped_for_a_second_makes_its_run_invalid(tmp_path: Path) -> None:
    with null_server(ttft_s=0.05, itl_s=0.01, life_s=120) as server:
        data = inference("openai-http", options={"url": server.url})
        data["workload"] |= {"arrival": {"kind": "poisson"}}
        data["point"] = data.get("point", {}) | {"rate_per_s": 20.0}
        data["protocol"] |= {"isolate": True, "duration_s": 12.0, "min_rows": 50}
        process, folder, pid = begun(tmp_path / "out", data)
        time.sleep(2)  # the stop has to come in mid-run, for which nothing else stands
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1)
        os.kill(pid, signal.SIGCONT)
        process.communicate(timeout=120)
    summary = summary_of(read_run(folder))
    assert not summary.ranked
    assert summary.verdict.label == "invalid"
    assert "client-stood-still" in repr(asdict(summary))
