"""A run's summary: whole, repeatable, and honest about what cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from material import inference, measured, spec_of, training
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.run import Run
from twinlens.record.store import create_run, read_run, update_run
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.run_summary import from_json, summarise, to_json
from twinlens.stats.summary.group import group
from twinlens.units import RATIO

LONG = {"duration_s": 30.0, "min_rows": 100}


@pytest.fixture(params=["training", "inference"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    make = training if request.param == "training" else inference
    return measured(tmp_path, make("fake", options={"noise": 0.02}, protocol=LONG))


def test_a_summary_is_the_same_every_time_and_survives_json(run: Run) -> None:
    first = summarise(run)
    assert summarise(read_run(run.folder)) == first
    assert from_json(json.loads(json.dumps(to_json(first), allow_nan=False))) == first
    assert list(to_json(first))[:2] == ["schema", "run"]


def test_every_metric_is_a_known_one_with_its_unit_and_lens(run: Run) -> None:
    summary = summarise(run)
    for name, estimate in summary.metrics.items():
        assert name in METRICS, name
        assert METRICS[name].unit == estimate.unit, name
        assert METRICS[name].lens in ("both", summary.lens), name
        assert estimate.method, name
        assert estimate.value is not None or estimate.reason, name


def test_an_interval_contains_its_value(run: Run) -> None:
    for name, estimate in summarise(run).metrics.items():
        if None not in (estimate.low, estimate.value, estimate.high):
            assert estimate.low <= estimate.value <= estimate.high, name  # type: ignore[operator]


def test_repeats_share_an_identity_and_other_points_do_not(tmp_path: Path) -> None:
    def identity(repeat: int = 0, **parts: object) -> str:
        spec = spec_of(training("fake", **parts)).model_copy(update={"repeat": repeat})
        return summarise(read_run(create_run(tmp_path, spec))).identity

    assert identity(0) == identity(1)
    assert len({identity(), identity(seq_len=16), identity(point={"precision": "bf16"})}) == 3


def test_what_was_interrupted_keeps_its_group_from_being_ranked_until_it_is_done_again(tmp_path: Path) -> None:
    run = measured(tmp_path, training("fake", options={"noise": 0.02}, protocol=LONG))
    whole = summarise(run)
    half = replace(whole, state="interrupted", run="half")
    other = replace(whole, repeat=1, run="other")
    assert group([whole])[0].ranked
    assert not group([half])[0].ranked
    assert not group([half, other])[0].ranked, "another repeat does not stand for it"
    (again,) = group([half, whole, other])
    assert again.ranked
    assert [one.run for one in again.runs] == [whole.run, "other"]


def test_the_lenses_are_never_in_one_group(tmp_path: Path) -> None:
    both = [summarise(measured(tmp_path, make("fake"))) for make in (training, inference)]
    assert len(group(both)) == 2


def test_an_efficiency_above_one_is_named_as_impossible(tmp_path: Path) -> None:
    run = measured(tmp_path, training("fake", protocol=LONG))
    assert run.facts is not None
    slow = {"matrix_flop_per_s": Estimate(1.0, "flop/s", "a busy neighbour", "measured")}
    summary = summarise(replace(run, facts=replace(run.facts, ceilings=slow)))
    assert summary.metrics["mfu"].value is not None
    assert summary.metrics["mfu"].value > 1
    assert ("impossible-share", "mfu") in {(finding.code, finding.subject) for finding in summary.findings}
    assert summary.ranked, "its rate does not depend on ceilings"


@pytest.mark.parametrize(("after", "told"), [(0.7e12, True), (1.2e12, True), (0.95e12, False)])
def test_a_ceiling_that_moved_during_the_run_is_told_in_a_sentence(tmp_path: Path, after: float, told: bool) -> None:
    run = measured(tmp_path, training("fake", protocol=LONG))
    assert run.facts
    before = {"matrix_flop_per_s": Estimate(1e12, "flop/s", "before", "measured")}
    again = {"matrix_flop_per_s": encode(Estimate(after, "flop/s", "after", "measured"))}
    update_run(run.folder, facts=encode(replace(run.facts, ceilings=before)), ceilings_after=again)
    moved = [finding for finding in summarise(read_run(run.folder)).findings if finding.code == "ceiling-moved"]
    assert bool(moved) == told
    if after == 0.7e12:
        assert sentence_of(moved[0]) == (
            "The matrix rate of this machine was 1.00 TFLOP/s before the run and 700 GFLOP/s after it (-30%): "
            "a share of it is uncertain by as much."
        )


def test_energy_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    run = measured(tmp_path, training("fake", protocol=LONG))
    energy = summarise(replace(run, facts=None)).metrics["energy_per_step_j"]
    assert energy.value is None
    assert energy.reason
    assert isinstance(run.facts, Facts)


@pytest.mark.parametrize("name", ["mfu", "mfu_own_shapes", "mfu_datasheet", "hfu"])
def test_a_share_of_a_ceiling_over_runs_ends_at_the_ceiling(run: Run, name: str) -> None:
    def over(*values: float) -> Estimate:
        one = summarise(run)
        runs = [
            replace(one, run=str(v), repeat=i, metrics={name: Estimate(v, RATIO, "a share", "derived")})
            for i, v in enumerate(values)
        ]
        (together,) = group(runs)
        return together.metrics[name]

    uneven = over(0.2, 0.9, 0.95)  # mean 0.68, ± t(2) s / √3 = 1.05
    assert (uneven.low, uneven.high) == (0.0, 1.0)
    assert "cut at 1, the most it can be" in uneven.method
    above = over(0.5, 0.9, 1.1)  # one run was above its ceiling: it is none, and the finding says so
    assert (above.high or 0) > 1
