"""What checks find in a run, and that it keeps the run from being ranked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from material import inference, measured, training
from twinlens.record.codec import decode
from twinlens.record.executor.record import PrecisionCheck
from twinlens.record.run import Run
from twinlens.record.sections import ComplianceTest
from twinlens.record.store import read_run
from twinlens.stats.run_summary import from_json, summarise, to_json
from twinlens.stats.summary.group import group

LONG = {"duration_s": 30.0, "min_rows": 100}


@pytest.fixture(params=["training", "inference"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    make = training if request.param == "training" else inference
    return measured(tmp_path, make("fake", options={"noise": 0.02}, protocol=LONG))


def codes(run: Run) -> list[tuple[str, str, str]]:
    return [(finding.code, finding.severity, finding.subject) for finding in summarise(run).findings]


def checked(run: Run, verdict: Any) -> Run:
    assert run.facts is not None
    check = PrecisionCheck("weights", "int8", "bf16", verdict, "native", "dtype of 3 of 4 tensors")
    return replace(run, facts=replace(run.facts, precision=(check,)))


def guarded(run: Run, ruling: str) -> Run:
    found = {"id": "caching", "after": "TEST04", "ruling": ruling, "reason": "repeats take a tenth", "evidence": {}}
    return replace(run, sections=replace(run.sections, guards=(decode(ComplianceTest, found),)))


def test_a_run_without_a_fault_is_ranked(run: Run) -> None:
    assert summarise(run).ranked
    assert summarise(checked(run, "agrees")).ranked
    assert summarise(checked(run, "unknown")).ranked
    assert summarise(guarded(run, "not enough")).ranked


def test_a_precision_that_differs_is_not_ranked_however_steady(run: Run) -> None:
    other = checked(run, "differs")
    summary = summarise(other)
    assert ("precision-differs", "disqualifies", "weights") in codes(other)
    assert summary.verdict.validity == "valid"
    assert not summary.ranked
    assert not group([summary])[0].ranked


def test_a_failed_guard_is_not_ranked(run: Run) -> None:
    other = guarded(run, "fail")
    assert ("guard-failed", "disqualifies", "caching") in codes(other)
    assert not summarise(other).ranked


def test_one_disqualified_repeat_keeps_its_group_from_being_ranked(run: Run) -> None:
    good = summarise(run)
    bad = replace(summarise(guarded(run, "fail")), repeat=1, run="other")
    assert group([good])[0].ranked
    assert not group([good, bad])[0].ranked


def test_an_unfinished_run_is_not_ranked(run: Run) -> None:
    assert not replace(summarise(run), state="interrupted").ranked


def test_findings_stand_in_the_summary_and_one_without_them_is_still_read(run: Run) -> None:
    summary = summarise(guarded(run, "fail"))
    data = json.loads(json.dumps(to_json(summary), allow_nan=False))
    assert data["findings"][0]["code"] == "guard-failed"
    assert from_json(data) == summary
    del data["findings"]
    assert from_json(data).findings == ()


def test_training_that_diverged_is_a_finding_and_not_ranked(tmp_path: Path) -> None:
    until = {"loss_nats": 2.0, "every_steps": 5}
    good = measured(tmp_path, training("fake", options={"noise": 0.02}, protocol=LONG, until=until))
    table, path = good.table, next(good.folder.glob("steps.arrows"))
    path.with_name(path.name + ".crc32").unlink()
    for bad in (float("nan"), float("inf")):
        loss = [bad if row > 20 else value for row, value in enumerate(table["loss"].to_pylist())]
        place = table.column_names.index("loss")
        path.unlink()  # what is read is mapped: a file that is written over would change under it
        with pa.ipc.new_stream(path, table.schema) as out:
            out.write_table(table.set_column(place, table.schema.field("loss"), pa.array(loss, pa.float64())))
        lost = read_run(good.folder)
        assert ("diverged", "disqualifies", "loss") in codes(lost)
        summary = summarise(lost)
        assert not summary.ranked
        assert summary.metrics["final_loss"].value is None
        assert from_json(json.loads(json.dumps(to_json(summary)))) == summary
