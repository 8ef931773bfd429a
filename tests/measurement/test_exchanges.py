"""Runs of exchanges between ranks: figures of known laws from measuring to tables, comparison and report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import twinlens as tl
from material import measured, run_json, spec_of, study_of
from twinlens.errors import BadInput
from twinlens.executors.refuse import refuse_unsupported
from twinlens.executors.torch.parallel.exchanger import rows_of
from twinlens.executors.torch.parallel.exchanger_entry import degrees_of
from twinlens.measurement.preflight.refuse import preflight
from twinlens.measurement.session import run_here
from twinlens.measurement.summary_file import summary_of
from twinlens.record.run import Run
from twinlens.record.step import EXCHANGE_SCHEMA, Exchange, Exchanges
from twinlens.record.store import create_run
from twinlens.reporting.comparing.comparison import comparison_document
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.text.fitted import plain
from twinlens.spec.workload.workload import CollectiveWorkload
from twinlens.stats.metrics.inference import exchange_metrics, exchange_steadiness
from twinlens.stats.run_summary import from_json, to_json
from twinlens.stats.steady.levels import SteadyRule
from twinlens.theory.collective import bus_factor

MIB = 2**20


def asked(kind: str = "fake", exchange: str = "all-reduce", size_bytes: int = MIB, **parts: Any) -> dict[str, Any]:
    """Spec data of exchanges; of the fake ones, which last a virtual millisecond and what the bytes take."""
    protocol = {"isolate": False, "repeats": 1, "extend": 0, "steady_s": 0.0, "telemetry_s": 0.1, "duration_s": 1.0}
    return {
        "name": "small",
        "executor": {"kind": kind, "options": parts.pop("options", {})} | parts.pop("executor", {}),
        "workload": {"kind": "collective", "exchange": exchange, "size_bytes": size_bytes},
        "point": parts.pop("point", {}),
        "sweep": parts.pop("sweep", {}),
        "protocol": protocol | parts.pop("protocol", {}),
    }


def noisy(parent: Path, **options: float) -> Run:
    return measured(parent, asked(options={"noise": 0.05} | options))


def repeated(folder: Path, options: dict[str, float], size_bytes: int = MIB) -> None:
    """Three repeats."""
    study = study_of(asked(options=options, size_bytes=size_bytes, protocol={"repeats": 3}))
    for spec in study.runs():
        run_here(create_run(folder, spec), spec, lambda phrase, share, rows: None)


def table(rows: list[Exchange]) -> Exchanges:
    columns = {name: [getattr(row, name) for row in rows] for name in EXCHANGE_SCHEMA.names}
    return Exchanges.from_table(pa.table(columns, EXCHANGE_SCHEMA))


def test_figures_are_those_worked_by_hand_and_leave_the_barriers_out() -> None:
    # 40 exchanges of 1000 bytes by 4 ranks; the slowest takes 2 ms, and 3 ms of barrier lie between two of them.
    ms = 1_000_000
    rows = table([Exchange(5 * ms * k, 5 * ms * k + 2 * ms, (ms, 2 * ms, ms, ms)) for k in range(40)])
    workload = CollectiveWorkload(kind="collective", exchange="all-reduce", size_bytes=1000)
    metrics = exchange_metrics(rows, exchange_steadiness(rows), workload)
    assert metrics["exchanges_per_s"].value == pytest.approx(500)
    assert metrics["algorithm_bytes_per_s"].value == pytest.approx(500_000)
    assert metrics["bus_bytes_per_s"].value == pytest.approx(750_000)  # × 2 (4 - 1) / 4
    assert metrics["exchange_s_p50"].value == pytest.approx(0.002)


@pytest.mark.parametrize("exchange", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send"])
def test_the_factor_of_the_bus_is_that_of_theory(exchange: str) -> None:
    workload = CollectiveWorkload(kind="collective", exchange=exchange, size_bytes=8)  # type: ignore[arg-type]
    for ranks in (1, 2, 4, 8):
        assert workload.bus_factor(ranks) == pytest.approx(float(bus_factor(exchange, ranks)))  # type: ignore[arg-type]


def test_the_shortest_steady_window_is_of_the_clock_and_not_of_time_in_exchanges() -> None:
    ms = 1_000_000
    rng = np.random.default_rng(3)
    taken = np.round(ms * (1 + 0.01 * rng.standard_normal(400))).astype(int).tolist()
    rows = table([Exchange(10 * ms * k, 10 * ms * k + t, (t, t)) for k, t in enumerate(taken)])  # 4 s, of which 0.4
    kept, short = (exchange_steadiness(rows, SteadyRule(min_seconds=seconds)) for seconds in (2.0, 8.0))
    assert kept is not None
    assert kept.validity == "valid"
    assert short is not None
    assert short.validity == "provisional"


def test_a_run_keeps_the_law_of_latency_and_bandwidth(tmp_path: Path) -> None:
    run = noisy(tmp_path, latency_s=0.004, bus_bytes_per_s=MIB / 0.006)
    summary = summary_of(run)
    assert (run.lens, summary.model, summary.point["size_bytes"]) == ("collective", "all-reduce", MIB)
    assert summary.metrics["exchange_s_p50"].value == pytest.approx(0.010, rel=0.03)
    assert summary.metrics["bus_bytes_per_s"].value == pytest.approx(MIB / 0.010, rel=0.03)
    assert run.exchanges.rank_ns.shape == (len(run.exchanges), 2)
    assert summary.ranked
    with pytest.raises(TypeError, match="has exchanges, not steps"):
        _ = run.steps
    assert run_json(run)["lens"] == "collective"


def test_one_run_is_shown_with_its_exchange_size_ranks_and_bandwidths(tmp_path: Path) -> None:
    shown = tl.show(noisy(tmp_path))
    for words in (
        "collective: all-reduce of 1.00 MiB · 2 ranks",
        "bus bandwidth",
        "algorithm bandwidth",
        "exchange p99",
    ):
        assert words in shown


def test_points_have_a_table_of_their_own_named_by_size_that_fits_a_terminal(tmp_path: Path) -> None:
    runs = [measured(tmp_path, asked(size_bytes=size, options={"noise": 0.05})) for size in (65536, MIB)]
    shown = tl.show(*runs)
    assert "Collective · all-reduce" in shown
    assert "64.0 KiB" in shown
    assert "1.00 MiB" in shown
    assert "busbw" in shown
    assert "tokens/s" not in shown
    assert "p50" in next(line for line in shown.splitlines() if "busbw" in line), "one line a point"


def test_ranks_or_networks_are_compared_at_the_same_size_and_sizes_are_not(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, rate in ((before, 1e9), (after, 2e8)):
        repeated(folder, {"noise": 0.02, "bus_bytes_per_s": rate})
    (found,) = tl.compare(str(before), str(after))
    assert found.verdict != "not comparable", [each.code for each in found.findings]
    shown = plain(screen(comparison_document([found], (), ())))
    assert "busbw" in shown or "bus bandwidth" in shown
    first = next(each for each in found.effects if each.metric == "bus_bytes_per_s")
    expected = (0.001 + MIB / 1e9) / (0.001 + MIB / 2e8)
    assert first.ratio.value == pytest.approx(expected, rel=0.05)
    repeated(tmp_path / "large", {"noise": 0.02}, size_bytes=2 * MIB)
    (other,) = tl.compare(str(before), str(tmp_path / "large"))
    assert other.verdict == "not comparable"


def test_a_report_has_the_exchanges_and_their_charts(tmp_path: Path) -> None:
    page = tl.report([noisy(tmp_path)], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Collective of all-reduce by operating point" in page
    assert "bus bandwidth (MB/s)" in page, "1 MiB in 1 ms and 1.05 ms is 512 MB/s"
    assert "bus bandwidth (bytes/s)" not in page
    assert re.search(r">5\d\d [±−<]", page), "the bar says hundreds of MB/s, not 5e+08"


def test_a_run_of_exchanges_has_nothing_to_diagnose(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="runs no model") as refused:
        tl.diagnose(noisy(tmp_path))
    assert refused.value.code == "TL228"


def test_rows_are_made_of_what_each_rank_stamped_on_one_clock_or_on_its_own() -> None:
    told = [[(100, 150), (300, 340)], [(110, 170), (305, 330)]]
    one = rows_of(told, 50, one_clock=True)
    assert one == (Exchange(50, 120, (50, 60)), Exchange(250, 290, (40, 25)))
    own = rows_of([told[0], [(9110, 9170), (9305, 9330)]], 50, one_clock=False)
    assert own == (Exchange(50, 110, (50, 60)), Exchange(250, 290, (40, 25)))


def test_rows_of_unequal_numbers_of_ranks_are_a_damage() -> None:
    with pytest.raises(pa.ArrowInvalid, match="unequal"):
        table([Exchange(0, 2, (1, 2)), Exchange(3, 5, (1,))])


def refused_by(data: dict[str, Any]) -> None:
    spec = spec_of(data)
    refuse_unsupported(spec)
    degrees_of(spec)


ON_CPU = {"device": "cpu"}
TURNS = {"pairing": "slices", "isolate": True}
REFUSED = {
    "batch": (asked(point={"batch": 4}), "TL202", "point.batch means nothing"),
    "precision": (asked("torch-collectives", point={"precision": "bf16"}), "TL203", "a link carries bytes"),
    "slices": (asked(sweep={"workload.size_bytes": [8, 16]}, protocol=TURNS), "TL202", "alone"),
    "kind": (asked(exchange="all-too-all"), "TL202", "workload"),
    "share": (asked("torch-collectives", size_bytes=10, executor=ON_CPU), "TL202", "such as 8"),
    "one rank": (asked("torch-collectives", options={"ranks": 1}), "TL207", "from 2 to 1024"),
    "not its kind": (asked("torch"), "TL207", "unknown executor 'torch' for collective"),
    "gloo": (asked("torch-collectives", "reduce-scatter", executor=ON_CPU), "TL243", "which is an all-reduce"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_exchanged_is_refused_in_one_sentence(what: str) -> None:
    data, code, words = REFUSED[what]
    with pytest.raises(BadInput, match=words) as refused:
        refused_by(data)
    assert refused.value.code == code
    assert "\n" not in str(refused.value)


def test_in_a_sweep_an_exchange_that_the_backend_lacks_is_left_out_with_its_reason() -> None:
    sweep = {"workload.exchange": ["all-reduce", "reduce-scatter"]}
    lacking = preflight(study_of(asked("torch-collectives", executor=ON_CPU, sweep=sweep)))
    assert [error.code for error in lacking.values()] == ["TL243"]


def test_a_summary_survives_json(tmp_path: Path) -> None:
    summary = summary_of(noisy(tmp_path))
    assert from_json(json.loads(json.dumps(to_json(summary)))).metrics == summary.metrics
