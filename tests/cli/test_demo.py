"""`demo`: both lenses, on the fake executor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from material import study_of
from twinlens.cli.main import app
from twinlens.measurement.study import Outcome
from twinlens.record.store import find_runs
from twinlens.spec.study import Study


def call(*words: str | Path) -> Result:
    """A verb in this process: as quick as a function, stdout and stderr apart."""
    return CliRunner().invoke(app, [str(word) for word in words])


def on_the_fake(study: dict[str, Any]) -> dict[str, Any]:
    """The same where there is no torch whose options could be set, and no server that could be made to stand still."""
    return study | {"executor": {"kind": "fake"}, "protocol": study["protocol"] | {"stall": None}}


def test_the_demo_leaves_a_core_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from twinlens.api.measuring import demo

    monkeypatch.setattr(demo, "usable_cores", lambda: 8)
    threads = {study.name: study.executor.threads for study in demo.demo_studies()}
    assert threads == {"demo-training": 7, "demo-inference": 7, "demo-quality": 7, "demo-serving": 1}


def test_demo_measures_both_lenses_and_writes_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundled studies, on the fake executor: what is measured for real is held in tests/executors."""
    from twinlens.api.measuring import demo

    quick = ("protocol.repeats=1",)
    studies = tuple(
        study_of(
            on_the_fake(study.to_dict()),
            *quick,
            *(() if study.protocol.pairing == "slices" else ("protocol.isolate=false",)),  # turns need processes
        )
        for study in demo.demo_studies()
    )
    assert [study.protocol.pairing for study in studies] == ["slices", "slices", "none", "none"]
    assert [study.lens for study in studies] == ["training", "inference", "training", "inference"]
    monkeypatch.setattr(demo, "demo_studies", lambda: studies)
    kept: dict[str, Outcome] = {}
    measure = demo.measure

    def once(study: Study, *words: Any, **more: Any) -> Outcome:
        """Measured at the first asking: what is shown as JSON is the same."""
        if study.name not in kept:
            kept[study.name] = measure(study, *words, **more)
        return kept[study.name]

    monkeypatch.setattr(demo, "measure", once)
    out = tmp_path / "runs"
    done = call("demo", "--out", out, "-q")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.index("training") < done.stdout.index("inference")
    first, _, whole = done.stdout.partition("The first of 4 studies; the table of all follows.")
    assert "raining" in first, "a first result while the others are measured"
    assert "nference" not in first
    assert "raining" in whole
    assert "nference" in whole
    (report,) = out.glob("*.html")
    assert done.stderr.strip() == f"report: {report}"
    assert len(find_runs(out)) == sum(len(study.runs()) for study in studies) == 8
    again = call("demo", "--out", out, "-q", "--json")
    assert again.exit_code == 0, again.stderr
    data = json.loads(again.stdout)
    assert len(data["runs"]) == 8
    rates = [one for one in data["paired"] if one["metric"] != "decode_tokens_per_s"]
    against = [(one["lens"], one["point"]["precision"]) for one in rates]
    assert against == [("training", "bf16"), ("inference", "bf16"), ("inference", "int8-weight")]
