"""A remedy knows what was tried: in the run itself, and in the runs beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import twinlens as tl
from diagnosis.saturated import decoded, step, trained
from material import inference, measured, study_of, training
from twinlens.cli.main import app
from twinlens.diagnosis.time_split import in_use
from twinlens.diagnosis.verdict import verdict_of
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import advice_of, sentence_of

BUSY = step(data=0.01, forward=0.3, backward=0.6, optimize=0.09)


@pytest.mark.parametrize(
    ("data", "used"),
    [
        (inference("fake"), {}),
        (inference("fake", point={"batch": 4, "precision": "bf16"}), {"batch": 4, "narrow": "bf16"}),
        (training("fake", global_batch=1), {}),
        (training("fake", point={"microbatch": 2}), {"batch": 2, "accumulation": 2}),
        (training("fake", global_batch=1, checkpointing=True), {"recompute": True}),
    ],
)
def test_what_a_run_was_asked_for_is_in_use(data: dict[str, Any], used: dict[str, Any], tmp_path: Path) -> None:
    assert in_use(measured(tmp_path, data)) == used


def test_a_compiled_graph_is_in_use(tmp_path: Path) -> None:
    run = measured(tmp_path, inference("fake"))
    asked = run.spec.executor.model_copy(update={"options": {"graph": "compiled", "num_workers": 3}})
    object.__setattr__(run, "spec", run.spec.model_copy(update={"executor": asked}))
    assert in_use(run) == {"compiled": True, "workers": 3}


def test_advice_leaves_out_what_is_in_use_and_asks_for_more_of_what_has_more() -> None:
    below = verdict_of(decoded(1e9, 1e9, in_use={"compiled": True, "batch": 4}))
    latency = replace(below, code="latency-bound")
    assert advice_of(latency) == "Fuse small operations; raise the batch above 4 (in use: compiled graph, batch 4)."
    compute = verdict_of(trained(BUSY, in_use={"narrow": "bf16", "recompute": True}))
    assert advice_of(compute) == (
        "Take a format narrower than bf16; do less arithmetic; keep activations instead of computing them again "
        "(in use: bf16, recomputed activations)."
    )
    waiting = verdict_of(trained(step(data=0.7, forward=0.1, backward=0.2), in_use={"workers": 2}))
    assert advice_of(waiting).startswith("Add more than 2 workers")
    assert verdict_of(decoded(1e9, 1e9, in_use={"compiled": True})).numbers["tried"] == {"compiled": True}
    assert "compiled already" in sentence_of(below)


def test_advice_is_as_ever_where_nothing_of_it_is_in_use() -> None:
    assert advice_of(verdict_of(decoded(1e9, 1e9))) == advice_of(Finding("below-ceilings", "notes"))
    assert advice_of(verdict_of(decoded(1e9, 1e9, in_use={"accumulation": 4}))) == advice_of(
        Finding("below-ceilings", "notes")
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Batches of 1 and 2, of which the second decodes two at the price of one; and both at another precision."""
    laws = {"c_s": 0.01, "d_s": 0.001, "a_s": 0.0, "b_s": 0.0}
    sweep = {"batch": [1, 2], "precision": ["fp32", "bf16"]}
    out = tmp_path_factory.mktemp("runs")
    return tl.measure(study_of(inference("fake", options=laws, sweep=sweep)), out, watch=None).folder


def test_runs_that_differ_in_one_setting_say_what_it_gave(study: Path) -> None:
    run = next(run for run in tl.read(study) if run.spec.point.batch == 1 and run.spec.point.precision == "fp32")
    (found,) = tl.diagnose(run)
    tried = {(each.subject, each.numbers["to"]): each for each in found.tried}
    assert set(tried) == {("point.batch", 2), ("point.precision", "bf16")}, "of two changes at once nothing is said"
    assert tried["point.batch", 2].evidence["ratio"].value == pytest.approx(2.0, rel=0.1)
    assert tried["point.precision", "bf16"].evidence["ratio"].value == pytest.approx(1.0, rel=0.1)
    shown = " ".join(CliRunner().invoke(app, ["diagnose", str(run.folder)]).stdout.split())
    assert "point.batch 2 instead of 1: 2.00×" in shown
    assert encode(found)["tried"][0]["code"] == "already-tried"


def test_load_is_no_remedy_and_a_run_alone_has_none(tmp_path: Path) -> None:
    (found,) = tl.diagnose(measured(tmp_path, inference("fake")))
    assert found.tried == ()
