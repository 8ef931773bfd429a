"""Exchanges between two and four real processes over gloo, measured as runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from material import measured
from twinlens.measurement.summary_file import summary_of
from twinlens.record.run import Run
from twinlens.testing import conformance

pytestmark = [pytest.mark.slow, pytest.mark.torch]

TestTwoRanks = conformance("torch-collectives", executor={"device": "cpu"})


def exchanged(parent: Path, exchange: str, size_bytes: int, ranks: int) -> Run:
    data: dict[str, Any] = {
        "name": "small",
        "executor": {"kind": "torch-collectives", "device": "cpu", "threads": 1, "options": {"ranks": ranks}},
        "workload": {"kind": "collective", "exchange": exchange, "size_bytes": size_bytes},
        "protocol": {"isolate": False, "repeats": 1, "extend": 0, "steady_s": 0.0, "duration_s": 1.0},
    }
    return measured(parent, data)


@pytest.mark.parametrize(("exchange", "ranks"), [("all-reduce", 4), ("all-to-all", 2), ("send", 2)])
def test_a_run_of_real_ranks_has_rows_figures_and_leaves_no_process(exchange: str, ranks: int, tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    run = exchanged(tmp_path, exchange, 2**16, ranks)
    summary = summary_of(run)
    assert run.exchanges.rank_ns.shape == (summary.rows, ranks)
    assert summary.rows >= 30
    bus, algorithm, p50 = (
        summary.metrics[name].value for name in ("bus_bytes_per_s", "algorithm_bytes_per_s", "exchange_s_p50")
    )
    assert bus is not None
    assert algorithm is not None
    factor = {"all-reduce": 1.5, "all-to-all": 0.5, "send": 1.0}[exchange]
    assert bus == pytest.approx(factor * algorithm)
    assert p50 is not None
    assert 0 < p50 < 1
    assert "exchange-on-processor" in [finding.code for finding in summary.findings]
    assert run.facts is not None
    assert run.facts.executor.value("training.world_size") == ranks
    until_s = time.monotonic() + 20
    while (left := {c.pid for c in psutil.Process().children(recursive=True)} - before) and time.monotonic() < until_s:
        time.sleep(0.1)
    assert not left
