"""A run under load that ends when its answer is decided, against a server that really answers."""

from __future__ import annotations

from pathlib import Path

from twinlens.measurement.attach import attach
from twinlens.measurement.quick import quick
from twinlens.measurement.study import measure_study
from twinlens.network.null_server import null_server
from twinlens.record.store import find_runs

SHORT = [
    "protocol.duration_s=1", "protocol.most_s=240", "protocol.steady_s=0", "protocol.isolate=false",
    "protocol.repeats=1", "protocol.retakes=0", "protocol.ceilings=false",
    "workload.output_tokens.value=4", "point.rate_per_s=100",
]  # fmt: skip


def test_a_run_ends_soon_after_its_slo_is_decided(tmp_path: Path) -> None:
    with null_server(0.01, 0.001) as server:
        limits = ["workload.slo.ttft_s=30", "workload.slo.quantile=0.9"]
        measure_study(attach(server.url, None, [*SHORT, *limits]), tmp_path)
    (run,) = find_runs(tmp_path)
    assert run.state == "finished"
    assert 80 <= run.table.num_rows < 20_000, "of the 24,000 of four minutes: looks come late on a busy machine"


def test_a_server_that_is_up_is_measured_until_it_is_decided_unless_a_length_is_given() -> None:
    with null_server(0.01, 0.001) as server:
        study = attach(server.url)
        assert (study.protocol.duration_s, study.protocol.most_s) == (60, 240)
        assert attach(server.url, None, ["protocol.duration_s=9"]).protocol.most_s == 0
        assert attach(server.url, None, quick(study)).protocol.most_s == 0
