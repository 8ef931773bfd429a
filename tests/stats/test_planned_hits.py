"""What a workload lets a prefix cache find, and what of a trace or of a target cannot be had, is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from material import inference, measured, run_json, spec_of, study_of, training
from twinlens.errors import BadInput
from twinlens.measurement.preflight.refuse import refuse_points, sentences
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, observed
from twinlens.record.run import Run
from twinlens.record.store import read_run
from twinlens.stats.run_summary import summarise
from twinlens.stats.server.metrics import planned_hits, short_prefix


def shared(tmp_path: Path, tokens: int) -> Run:
    asked = inference(
        "fake", arrival={"kind": "constant"}, point={"rate_per_s": 10.0}, prefix={"tokens": tokens, "share": 0.5},
        protocol={"duration_s": 2.0, "min_rows": 1},
    )  # fmt: skip
    return measured(tmp_path, asked)


def test_the_planned_share_of_hits_stands_beside_the_measured_one(tmp_path: Path) -> None:
    run = shared(tmp_path, 48)
    found = planned_hits(run)["planned_hit_ratio"]
    # 20 requests of 16 own tokens, half with 48 shared ones, one of which misses: (10 - 1) · 48 / 20 / (24 + 16).
    assert found.n == 20
    assert found.value == pytest.approx((0.5 * 20 - 1) / 20 * 48 / 40, rel=1e-4)
    assert summarise(run).metrics["planned_hit_ratio"] == found
    assert planned_hits(measured(tmp_path, inference("fake"))) == {}


def test_a_prefix_shorter_than_a_block_of_the_cache_is_warned_of(tmp_path: Path) -> None:
    run = shared(tmp_path, 96)
    assert short_prefix(run) == ()
    for block, count in ((128, 1), (96, 0), (16, 0)):
        record = ExecutorRecord({"serving.kv_block_tokens": observed(block, "its page")})
        notes = short_prefix(replace(run, facts=Facts(record)))
        assert len(notes) == count
        assert all(note.numbers == {"prefix_tokens": 96, "block_tokens": block} for note in notes)


def test_rows_of_a_trace_that_cannot_be_asked_for_are_counted_and_said(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time_s,input_tokens,output_tokens\n0,8,4\n0.1,8,0\n0.2,0,4\n0.3,8,4\n")
    arrival = {"kind": "trace", "path": str(trace), "format": "csv"}
    run = measured(tmp_path, inference("fake", arrival=arrival, protocol={"duration_s": 5.0, "min_rows": 1}))
    assert run_json(run)["unusable_trace_rows"] == 2
    assert ("trace-rows-left-out", 2) in [
        (finding.code, finding.numbers.get("rows")) for finding in summarise(run).findings
    ]
    path = run.folder / "run.json"
    raw = json.loads(path.read_text())
    del raw["unusable_trace_rows"]  # a run of an earlier version
    path.write_text(json.dumps(raw))
    assert not [note for note in summarise(read_run(run.folder)).notes if "trace" in note]


def test_a_gap_to_an_entropy_rate_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("words " * 500)
    asked = training(data={"kind": "text", "path": str(text)}, until={"gap_nats": 0.1})
    with pytest.raises(BadInput, match=r"entropy rate is known.*give workload\.until\.loss_nats"):
        study_of(asked)
    study_of(training(until={"gap_nats": 0.1}))
    study_of(training(data={"kind": "text", "path": str(text)}, until={"loss_nats": 2.0}))


def test_check_and_measure_say_beforehand_what_a_device_lacks() -> None:
    fp8, fp32 = (spec_of(inference(point={"precision": name})) for name in ("fp8", "fp32"))
    with pytest.raises(BadInput, match=r"'fp8' needs an NVIDIA GPU .* this is the CPU"):
        refuse_points([fp8])
    lacking = refuse_points([fp32, fp8, fp8])
    assert list(lacking) == [fp8.point_fingerprint()], "the others of the study can be measured"
    (sentence,) = sentences(lacking)
    assert "fp8" in sentence
    assert refuse_points([fp32]) == {}
