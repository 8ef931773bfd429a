"""Courses fitted to runs: what they were made with comes out again, and a run that cannot say it is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.report_material import STEP_S, inference_run, training_run

import twinlens as tl
from twinlens.errors import BadInput
from twinlens.record.run import Run
from twinlens.record.step import Steps
from twinlens.simulation.training.course import Constant, drawn, finish
from twinlens.simulation.training.fitted import fitted
from twinlens.simulation.training.history import history
from twinlens.simulation.training.rows import rows
from twinlens.simulation.training.run_folder import write_course
from twinlens.stats.metrics.training import training_metrics, training_steadiness
from twinlens.stats.steady.levels import SteadyRule


@pytest.fixture(scope="module")
def repeats(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    parent = tmp_path_factory.mktemp("runs")
    return [training_run(parent, "bf16", repeat)[0] for repeat in range(4)]


def test_a_course_fitted_to_three_repeats_covers_the_fourth(repeats: list[Run]) -> None:
    *three, fourth = repeats
    found = fitted(three)
    assert found.ranks == 1
    assert found.course.step_s == pytest.approx(STEP_S["bf16"], rel=0.05)
    assert found.course.evaluate_every == 20
    assert found.lacks == ("save", "restart", "startup")
    steps = fourth.steps
    only, steadiness = training_steadiness(steps)
    assert steadiness is not None
    begin = steadiness.steady_begin
    measured_s = (only.end_ns[-1] - only.begin_ns[begin]) / 1e9
    looks_s = (steps.end_ns - steps.begin_ns)[steps.kind == "evaluate"].mean() / 1e9
    calm = finish(found.course, 200)
    scale = (len(only) - begin) / found.course.steps
    low, high = np.quantile([scale * (each["useful"] + each["data"]) for each in calm.each], [0.025, 0.975])
    assert low <= measured_s <= high
    assert calm.parts["evaluation"].value == pytest.approx(looks_s * (found.course.steps // 20), rel=0.05)


def test_simulated_rows_have_the_metrics_of_the_measured_ones(repeats: list[Run]) -> None:
    found, run = fitted(repeats), repeats[0]
    random = np.random.default_rng(0)
    made = Steps.from_table(rows(history(drawn(found.course, random), random), found.step).table)
    rule = SteadyRule()
    metrics = {}
    for name, steps in (("simulated", made), ("measured", run.steps)):
        only, steadiness = training_steadiness(steps, rule)
        assert steadiness is not None
        metrics[name] = training_metrics(steps, only, steadiness, run.spec.workload, None)  # type: ignore[arg-type]
    for name in ("step_s_p50", "training_tokens_per_s", "forward_share", "data_share", "optimize_share"):
        simulated, measured = (metrics[which][name].value for which in ("simulated", "measured"))
        assert simulated == pytest.approx(measured, rel=0.05), name


def test_runs_that_cannot_be_fitted_are_refused(tmp_path: Path, repeats: list[Run]) -> None:
    with pytest.raises(BadInput, match="at least one measured run"):
        fitted([])
    with pytest.raises(BadInput, match="is of inference, and a course"):
        fitted([inference_run(tmp_path)[0]])
    with pytest.raises(BadInput, match="is interrupted"):
        fitted([training_run(tmp_path, state="interrupted")[0]])
    with pytest.raises(BadInput, match="is not valid"):
        fitted([training_run(tmp_path, slows=True)[0]])
    with pytest.raises(BadInput, match="must be repeats of one point"):
        fitted([repeats[0], training_run(tmp_path, "fp32")[0]])


def test_a_simulated_run_is_a_run_folder_that_verbs_read_and_no_course_is_fitted_to(
    tmp_path: Path, repeats: list[Run]
) -> None:
    found, spec = fitted(repeats), repeats[0].spec
    course = replace(found.course, steps=300, save_every=50, save=Constant(2.0), failure=Constant(10.0),
                     restart=Constant(1.0), startup=Constant(5.0))  # fmt: skip
    run = write_course(tmp_path, spec, course, found.step, "fitted", {"accelerator.product": "H100"}, seed=2)
    metrics = tl.summary(run).metrics
    assert {each.origin for each in metrics.values() if each.value is not None} == {"simulated"}
    assert metrics["save_blocked_s"].value == pytest.approx(2.0)
    assert metrics["lost_restart_share"].value > 0  # type: ignore[operator]
    shown = " ".join(tl.show(run).split())
    assert shown.startswith("SIMULATED")
    assert "the law is fitted" in shown
    with pytest.raises(BadInput, match="is simulated, and a course is fitted to what was measured"):
        fitted([run])
