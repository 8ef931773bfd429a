"""`simulate` of a training spec: when it ends, what a change does by the same seeds, and what cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.report_material import STEP_S, training_run

import twinlens as tl
from twinlens.api.simulating.training import SimulatedTraining
from twinlens.cli.main import app
from twinlens.errors import BadInput
from twinlens.record.run import Run
from twinlens.simulation.training.forecast import ACCOUNT, over
from twinlens.theory.sharding import Split, bubble_share
from twinlens.theory.waiting.slowest import slowest_of_lognormal

STEP = 'step_s = 0.5\ncv = 0.1\nsave_s = 5\nrestart_s = 20\nstartup_s = 10\nsource = "by hand"\n'
PIPE = "forward_s = [0.01, 0.01, 0.01, 0.01]\nbackward_s = [0.02, 0.02, 0.02, 0.02]\nmicrobatches = 8\n"


@pytest.fixture(scope="module")
def law(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("law") / "law.toml"
    file.write_text(STEP)
    return file


@pytest.fixture(scope="module")
def pipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pipe") / "pipe.toml"
    file.write_text(PIPE)
    return file


@pytest.fixture(scope="module")
def repeats(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    parent = tmp_path_factory.mktemp("runs")
    return [training_run(parent, "bf16", repeat)[0] for repeat in range(3)]


def trained(law: Path, *changes: str, **words: Any) -> SimulatedTraining:
    said: dict[str, Any] = {"law": law, "at": ["precision=fp32"], "seeds": 10, "dry": True, **words}
    return tl.simulate("pretrain", set_=["steps=2000", *changes], **said)


def call(*words: object) -> Result:
    return CliRunner().invoke(app, ["simulate", *map(str, words)])


def test_a_training_without_chance_ends_when_its_steps_and_saves_are_done(tmp_path: Path) -> None:
    """400 steps of 0.5 s, 4 saves of 5 s and a start of 10 s: 230 s, of which 200 train."""
    even = tmp_path / "even.toml"
    even.write_text(STEP.replace("cv = 0.1", "cv = 0"))
    (one,) = trained(even, "save_every=100", "steps=400").points
    assert one.found.wall.value == pytest.approx(230.0)
    assert one.found.productive.value == pytest.approx(200 / 230)
    assert one.tokens_per_s.value == pytest.approx(400 * 4 * 256 / 230)
    assert sum(one.account[name].value or 0.0 for name in ACCOUNT) == pytest.approx(1.0)


def test_the_answer_is_of_seeds_and_says_origin_band_and_account(law: Path) -> None:
    found = trained(law, "mtbf=10min")
    (one,) = found.points
    assert one.found.wall.origin == "simulated"
    assert one.found.wall.n == 10
    assert one.found.wall.low < one.found.wall.value < one.found.wall.high  # type: ignore[operator]
    assert one.saves is not None
    assert one.saves.best.low <= one.daly.value <= one.saves.best.high  # type: ignore[operator, union-attr]
    assert 0.5 < one.found.productive.value < 0.95  # type: ignore[operator]
    shown = repr(found)
    assert "2,000 steps are done in" in shown
    assert "Daly" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert found.to_html().count("<svg") == 1, "work that is kept against the time between saves"


def test_more_ranks_wait_for_the_slowest_as_its_law_says(law: Path) -> None:
    found = trained(law, "ranks=64", "slow=1.2")
    (ratio,) = (over(old, new)["wall_s"] for old, new in zip(found.before, found.points, strict=True))
    wanted = slowest_of_lognormal(0.5, 0.1, [1.0] * 63 + [1.2]) / 0.5
    assert ratio.value == pytest.approx(wanted, rel=0.02)
    assert found.points[0].account["slowest"].value == pytest.approx(1 - 1 / wanted, rel=0.05)
    assert found.changed == ("ranks=64", "slow=1.2")


def test_what_is_not_changed_is_the_same_by_the_same_seeds(law: Path) -> None:
    found = trained(law, "mtbf=10min", "save_every=2000", seeds=2)
    ratio = over(found.before[0], found.points[0])["wall_s"]
    assert ratio.value is not None
    assert ratio.value > 1, "a run that saves once loses more to its failures than one that saves as Daly says"
    same = trained(law, "mtbf=10min", seeds=2).points[0].found
    assert found.before[0].found.wall_s.tolist() == same.wall_s.tolist()


def test_a_pipeline_of_even_stages_has_the_bubble_of_theory(pipe: Path) -> None:
    """(p − 1)/(m + p − 1) = 3/11; with stages that differ the timeline has more."""
    (one,) = trained(pipe).points
    assert one.account["bubble"].value == pytest.approx(3 / 11)
    assert bubble_share(Split(pipeline=4, microbatches=8)) == pytest.approx(3 / 11)
    (more,) = trained(pipe, "microbatches=32").points
    assert more.account["bubble"].value == pytest.approx(3 / 35)
    page = trained(pipe, "schedule=gpipe").to_html()
    assert page.count("<svg") == 2, "the stages before and after the change"
    assert "waits for the stage before" in page


def test_a_modelled_training_agrees_with_the_plan_of_its_capacity() -> None:
    words = {"set_": ["steps=100", "workload.global_batch=64", "point.microbatch=2"], "at": ["precision=bf16"],
             "device": "H100", "devices": 8, "dry": True}  # fmt: skip
    (one,) = tl.simulate("gpu-training", **words).points
    planned = tl.plan.capacity("llama-3.2-1b", device="H100", devices=8, train="full", batch=64, microbatch=2,
                               context=2048, recompute="none", precision="bf16")  # fmt: skip
    assert one.course.step_s == pytest.approx(planned.answer.step.number, rel=1e-6)
    assert one.found.wall.low < 100 * one.course.step_s < one.found.wall.high  # type: ignore[operator]
    assert one.account["communication"].value > 0  # type: ignore[operator]


def test_a_training_like_measured_runs_takes_their_steps_and_keeps_rows(repeats: list[Run], tmp_path: Path) -> None:
    found = tl.simulate(repeats[0].folder, like=[repeats], out=tmp_path, seeds=3)
    (one,) = found.points
    assert one.known.origin == "fitted"
    assert one.course.step_s == pytest.approx(STEP_S["bf16"], rel=0.05)
    assert one.course.steps == 480, "as many as were measured"
    assert len(found.runs) == 3
    assert {run.place for run in tl.read(found.folder)} == {"simulated"}
    assert "SIMULATED" in tl.show(found)
    assert abs(found.runs[1].table.column("end_ns")[-1].as_py() / 1e9 - one.found.wall_s[1]) < 0.01


def test_runs_that_are_not_valid_are_left_out_and_counted(repeats: list[Run], tmp_path: Path) -> None:
    drifts = training_run(tmp_path, "bf16", 5, slows=True)[0]
    (one,) = tl.simulate(repeats[0].folder, like=[[*repeats, drifts]], seeds=1, dry=True).points
    assert one.course.source == "3 measured runs"
    assert "1 of 4 runs are left out, as they are unfinished or not valid" in one.known.doubts


def test_json_has_the_law_the_account_and_the_changes(law: Path) -> None:
    told = call("pretrain", "--at", "precision=fp32", "--law", law, "--seeds", 2, "--set", "steps=100", "--set",
                "ranks=8", "--dry", "--json")  # fmt: skip
    assert told.exit_code == 0, told.stderr
    data = json.loads(told.stdout)
    assert (data["lens"], data["simulated"], data["changed"]) == ("training", True, ["ranks=8"])
    assert data["points"][0]["wall_s"]["origin"] == "simulated"
    assert data["points"][0]["samples_per_step"] == 32, "each rank has a batch of its own"
    assert data["changes"][0]["wall_s"]["value"] > 1
    assert data["before"][0]["law"]["constants"]["ranks"] == 1


REFUSED = [
    (("--batching", "static(8)"), "--batching is of serving, and this spec is of training"),
    (("--slow", "2"), "--slow is of serving, and this spec is of training; say --set slow=1.2"),
    (("--set", "ranks=0"), "ranks is a whole number from 1"),
    (("--set", "mtbf=-8h"), "mtbf is a time above 0"),
    (("--set", "mtbf=nan"), "mtbf is a time above 0"),
    (("--set", "slow=nan"), "slow is a number from 1 on"),
    (("--set", "slow=2"), "slow is of one rank among others"),
    (("--set", "stages=4"), "training in virtual time has no setting 'stages'"),
    (("--set", "pipeline=4"), "pipeline needs forward_s and backward_s"),
    (("--set", "tokens=1B"), "twice, in steps and in tokens"),
    (("--set", "steps=9000000"), "steps is a whole number from 1 to 5,000,000"),
    (("--set", "bandwidth*2"), "a table says nothing of another machine"),
    (("--device", "H100"), "has one law, and --law and --device was given"),
]


@pytest.mark.parametrize(("words", "why"), REFUSED, ids=lambda each: str(each)[:40])
def test_what_cannot_be_simulated_is_refused_in_a_sentence(law: Path, words: tuple[str, ...], why: str) -> None:
    told = call("pretrain", "--at", "precision=fp32", "--law", law, "--set", "steps=10", *words)
    assert told.exit_code == 2
    assert why in " ".join(told.stderr.split())
    assert "Traceback" not in told.stderr


def test_runs_and_lengths_that_say_nothing_are_refused(law: Path, repeats: list[Run], pipe: Path) -> None:
    with pytest.raises(BadInput, match="does not say how long training is"):
        tl.simulate("pretrain", law=law, at=["precision=fp32"])
    with pytest.raises(BadInput, match="no run of --like is of this training"):
        tl.simulate("pretrain", like=[repeats], at=["precision=fp32"])
    with pytest.raises(BadInput, match="do not say what pipeline does to them"):
        tl.simulate(repeats[0].folder, like=[repeats], set_=["pipeline=2"])
    with pytest.raises(BadInput, match="what a save and a restart takes is not known"):
        tl.simulate(repeats[0].folder, like=[repeats], set_=["mtbf=8h"])
    with pytest.raises(BadInput, match="16 layers do not divide into 5 parts"):
        tl.simulate("gpu-training", device="H100", devices=5, at=["precision=bf16"], set_=["steps=9", "pipeline=5"])
    with pytest.raises(BadInput, match="4 parts do not lie on 3 stages"):
        trained(pipe, "pipeline=3")
    with pytest.raises(BadInput, match="at most 2,000,000 are kept"):
        trained(law, "steps=1000000", dry=False)
