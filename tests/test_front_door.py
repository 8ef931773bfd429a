"""The verbs as Python functions: the same names, the same results as on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import twinlens as tl
from material import called, for_rows, inference, study_of, training
from twinlens.cli.main import app
from twinlens.errors import BadInput
from twinlens.spec.load import dump


def test_everything_that_is_offered_is_there() -> None:
    assert dir(tl) == sorted(tl.__all__)
    for name in tl.__all__:
        assert getattr(tl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'mesure'"):
        _ = tl.mesure


def test_no_wheel_of_an_engine_waits_for_a_build_from_source() -> None:
    recipe = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8").partition("\n.venv/engines:")[2]
    wheels, source = (
        line.rpartition("-e ")[2] for line in recipe.split("\n\n")[0].splitlines() if "pip install" in line
    )
    assert wheels == "'.[onnxruntime,openvino,finetune]'"
    assert source == "'.[llama-cpp-engine]'", "llama.cpp is built where it is installed, and may fail"


def test_verbs_have_the_same_names_in_both_places() -> None:
    verbs = set(app.commands)
    assert verbs - set(tl.__all__) == {"list", "browse", "gateway"}, (
        "`import *` leaves Python's own word alone, and what is served is started by a command"
    )
    assert callable(tl.list)


def test_what_is_listed_is_what_the_command_prints() -> None:
    printed = json.loads(called("list", "precisions", "--json").stdout)
    assert tl.list("precisions") == printed
    with pytest.raises(BadInput, match="cannot list 'precision'"):
        tl.list("precision")


def test_the_demo_measures_its_studies_and_writes_one_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = (study_of(training("fake")), study_of(inference("fake")))
    monkeypatch.setattr("twinlens.api.measuring.demo.demo_studies", lambda: small)
    done = tl.demo(tmp_path, watch=None)
    assert [run.lens for run in done.runs] == ["training", "inference"]
    assert "Twinlens demo" in done.report.read_text(encoding="utf-8")
    assert len(done.outcomes) == 2
    assert done.sentences


LIGHT = """
import sys, twinlens
twinlens.Estimate
print(sorted({"numpy", "torch", "pyarrow", "pydantic"} & set(sys.modules)))
"""
SHADOWED = """
import twinlens.measurement.study, twinlens.reporting.report.page
import twinlens as tl
for name in tl.__all__:
    getattr(tl, name)
print(tl.measure.__module__, tl.report.__module__, twinlens.measurement.study.__name__)
"""


def said(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def test_a_name_that_is_used_costs_only_its_own() -> None:
    assert said(LIGHT) == "[]\n"


def test_verbs_and_packages_live_side_by_side() -> None:
    assert said(SHADOWED) == "twinlens.api.measuring.studies twinlens.api.report twinlens.measurement.study\n"


def test_the_whole_way_in_python(tmp_path: Path) -> None:
    file = tmp_path / "pretrain.toml"
    file.write_text(dump(study_of(training("fake", protocol=for_rows(60)))))
    study = tl.load(file)
    found = tl.check(study)
    (predicted,) = found.points
    assert predicted.theory["parameters"].value == 1016448
    assert predicted.memory_bytes is not None
    assert predicted.memory_bytes > 16 * 1016448
    assert (found.study, found.runs, found.lacking, found.refusal) == (study, 1, (), None)
    events: list[Any] = []
    outcome = tl.measure(study.at(precision="bf16"), out=tmp_path / "runs", watch=events.append)
    (run,) = outcome.runs
    assert events
    assert run.spec.point.precision == "bf16"
    assert run.steps.tokens.sum() == run.table.num_rows * 128
    found = tl.summary(run)
    assert isinstance(found.metrics["training_tokens_per_s"], tl.Estimate)
    assert found.metrics["training_tokens_per_s"].value == pytest.approx(1280)
    assert tl.read(tmp_path / "runs")[0].id == run.id
    assert "training" in tl.show(run)
    page = tl.report(outcome.runs, to=tmp_path / "report.html")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_show_is_what_the_command_prints(tmp_path: Path) -> None:
    for make in (training, inference):
        tl.measure(study_of(make("fake", protocol=for_rows(60))), out=tmp_path)
    printed = called("show", tmp_path).stdout
    shown = tl.show(*tl.read(tmp_path))
    assert printed.split() == shown.split()
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_a_parsed_spec_is_the_one_of_the_file(tmp_path: Path) -> None:
    data = training("fake")
    file = tmp_path / "small.toml"
    file.write_text(dump(study_of(data)))
    assert tl.parse(data) == tl.load(file)


def test_explain_gives_the_page_and_names_the_nearest() -> None:
    assert "MFU" in tl.explain("mfu")
    with pytest.raises(BadInput, match="mfu"):
        tl.explain("mfuu")


def test_what_cannot_run_is_refused_here_too(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not fit"):
        tl.check(study_of(training("torch", "llama-3.1-70b")))
    with pytest.raises(BadInput, match="no run folder"):
        tl.read(tmp_path / "none")


def test_every_entry_point_can_be_imported() -> None:
    from twinlens.executors.registry import executor, executor_names

    assert {"torch", "fake", "replay", "openai-http", "vllm"} <= set(executor_names())
    for kind in executor_names():
        assert executor(kind).lenses, "naming an executor needs none of its extras"


def test_a_summary_on_disk_is_the_summary(tmp_path: Path) -> None:
    (run,) = tl.measure(study_of(inference("fake")), out=tmp_path).runs
    from twinlens.stats.run_summary import to_json

    found = to_json(tl.summary(run))
    on_disk = json.loads((run.folder / "summary.json").read_text())
    assert on_disk.pop("twinlens") == tl.__version__
    assert len(on_disk.pop("of")) == 32, "the digest of what it was made of"
    assert len(on_disk.pop("seal")) == 64
    assert on_disk == json.loads(json.dumps(found))
