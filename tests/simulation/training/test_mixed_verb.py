"""`simulate` of serving with training beside it: two sets of numbers, three ways, and where the answer flips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import twinlens as tl
from twinlens.api.simulating.mixed import SimulatedMix
from twinlens.cli.main import app
from twinlens.units import DAY_S

LAW = "fixed_s = 0.012\nrow_s = 0.0004\ntoken_s = 1e-4\nbefore_s = 0.002\n\n[training]\nstep_s = 0.5\n"


@pytest.fixture(scope="module")
def law(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("law") / "both.toml"
    file.write_text(LAW)
    return file


@pytest.fixture(scope="module")
def found(law: Path) -> SimulatedMix:
    return mixed(law, 100, "switch=60s", "within=4days", "serving_slowdown=1.5", "training_slowdown=4")


def mixed(law: Path, rate: float, *changes: str, day: str = "0.1,0.6,1,0.7") -> SimulatedMix:
    return tl.simulate("chat", with_="pretrain@precision=bf16", law=law, day=day, at=[f"rate_per_s={rate}"], seeds=2,
                       set_=["protocol.duration_s=4", "steps=500000", *changes])  # fmt: skip


def call(*words: object) -> Result:
    return CliRunner().invoke(app, ["simulate", *map(str, words)])


def test_devices_by_the_hour_train_when_serving_does_not_need_them(found: SimulatedMix) -> None:
    """What each period needs is its rate over what one device serves; a step takes half a second, a switch a minute."""
    hours = next(each for each in found.ways if each.way == "by-hour")
    needed = [max(1, -(-rate // found.served_per_s)) for rate in (10, 60, 100, 70)]
    assert hours.outcome.serving.tolist() == needed
    assert hours.outcome.devices == max(needed) > 1
    idle = sum(max(needed) - each for each in needed)
    wanted = 2.0 * (idle * DAY_S / 4 - 60 * hours.outcome.switches)
    assert hours.steps.value == pytest.approx(wanted)
    assert hours.finish.value == pytest.approx(500_000 / wanted * DAY_S)
    assert hours.outcome.served_share == 1.0


def test_requests_and_steps_are_told_apart_for_each_way(found: SimulatedMix) -> None:
    apart, hours, together = found.ways
    assert (apart.way, hours.way, together.way) == ("apart", "by-hour", "together")
    assert apart.outcome.devices == hours.outcome.devices + 1
    assert apart.steps.value == pytest.approx(2.0 * DAY_S)
    for each in found.ways:
        assert each.worst is not None
        assert each.worst.origin == each.steps.origin == "simulated"
        assert each.worst.value < 0.5, "every way keeps the SLO"  # type: ignore[operator]
    assert together.steps.value == pytest.approx(together.outcome.devices * 2.0 / 4 * DAY_S)
    shown = " ".join(repr(found).split())
    assert "Training by the hour on the" in shown
    assert "flips" in shown
    assert found.to_html().count("<svg") == 1


def test_slowdowns_that_nobody_measured_are_not_guessed(law: Path) -> None:
    found = mixed(law, 20, day="1")
    assert [each.way for each in found.ways] == ["apart", "by-hour"]
    shown = " ".join(repr(found).split())
    assert "not measured how much each slows the other" in shown
    assert "adds nothing: serving needs all of them in every period" in shown
    assert found.ways[1].finish.value is None


def test_json_keeps_the_lenses_apart(law: Path) -> None:
    told = call("chat", "--with", "pretrain@precision=bf16", "--law", law, "--at", "rate_per_s=20", "--seeds", 1,
                "--set", "protocol.duration_s=5", "--set", "steps=1000", "--day", "0,1", "--json")  # fmt: skip
    assert told.exit_code == 0, told.stderr
    data = json.loads(told.stdout)
    assert data["lens"] == "mixed"
    assert data["serving"]["rate_per_s"] == [0.0, 20.0]
    assert data["training"]["steps"] == 1000
    assert [each["way"] for each in data["ways"]] == ["apart", "by-hour"]
    assert data["ways"][1]["steps_per_day"]["value"] > 0, "half of the day nobody asks"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"--with": "chat"}, "trains nothing"),
    ({"--with": "pretrain"}, "the training spec has 2 points"),
    ({"--day": "1,nan"}, "--day is the rate over a day"),
    ({"--day": "0,0"}, "--day is the rate over a day"),
    ({"--set": "serving_slowdown=1.5"}, "both slow each other down"),
    ({"--set": "training_slowdown=0.5"}, "training_slowdown is a number from 1 on"),
    ({"--set": "bandwidth*2"}, "could be of serving or of training"),
    ({"--replicas": "search"}, "--replicas is"),
    ({"--batching": "static(8)"}, "--batching is not modelled for serving and training together"),
    ({"--at": "rate_per_s=1,2"}, "the serving spec has 2 points"),
]


@pytest.mark.parametrize(("changes", "why"), REFUSED, ids=lambda each: str(each)[:40])
def test_mixed_work_that_cannot_be_is_refused_in_a_sentence(law: Path, changes: dict[str, Any], why: str) -> None:
    words = {"--with": "pretrain@precision=bf16", "--law": law, "--at": "rate_per_s=8", "--day": "1,0.5"} | changes
    told = call("chat", "--seeds", 1, "--set", "steps=10", *[each for pair in words.items() for each in pair])
    assert told.exit_code == 2
    assert why in " ".join(told.stderr.split())


def test_a_law_without_training_and_a_training_spec_in_front_are_refused(law: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.toml"
    alone.write_text(LAW.partition("[")[0])
    told = call("chat", "--with", "pretrain@precision=bf16", "--law", alone, "--at", "rate_per_s=4", "--set", "steps=9")
    assert told.exit_code == 2
    assert "the law 'alone.toml' is of serving alone" in " ".join(told.stderr.split())
    told = call("pretrain", "--with", "chat", "--law", law)
    assert told.exit_code == 2
    assert "name the serving spec first" in " ".join(told.stderr.split())
    told = call("chat", "--day", "1,0", "--law", law)
    assert "add --with and a training spec" in " ".join(told.stderr.split())
