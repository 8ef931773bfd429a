"""The verb, its folder shown, packed and compared with the last acceptance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.burnin.driving import decode, driven, folder_of, means, training

import twinlens as tl
from twinlens.api.measuring import burnin as verb
from twinlens.cli.main import app
from twinlens.spec.load import dump


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(verb, "_means_here", means)
    files = []
    for study in (training(), decode()):
        file = tmp_path / f"{study.name}.toml"
        file.write_text(dump(study))
        files.append(str(file))
    return files


def _call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_verb_prints_a_verdict_and_where_it_lies(specs: list[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    told = _call("burnin", *specs, "--for", "2m", "--turn", "30s", "--window", "10s", "--rest", "0s", "--out",
                 tmp_path / "runs", "-o", page)  # fmt: skip
    assert told.exit_code == 0
    assert f"burn-in: {folder_of(tmp_path / 'runs')}" in told.stderr
    assert "burn-in 4/4" in told.stderr
    assert page.read_text().startswith("<!doctype html>")
    shown = _call("show", folder_of(tmp_path / "runs"))
    assert shown.stdout == told.stdout


def test_a_folder_is_shown_as_data_and_a_folder_of_runs_it_is_not(tmp_path: Path) -> None:
    found = driven(tmp_path)
    folder = folder_of(tmp_path)
    data = json.loads(_call("show", folder, "--json").stdout)
    assert data["verdict"] == found.judgement.verdict
    assert data["windows"] == 12
    assert tl.show(folder).rstrip() == repr(found)
    assert _call("show", folder, "--csv").exit_code == 2
    assert _call("show", next(folder.glob("turn-00001/*/run.json")).parent).exit_code == 0


def test_a_pack_holds_windows_criteria_and_verdict(tmp_path: Path) -> None:
    driven(tmp_path / "runs")
    pack = tl.evidence(folder_of(tmp_path / "runs"), to=tmp_path / "pack.zip")
    checked = tl.verify(pack)
    assert checked.is_good
    named = {each["file"] for study in checked.about["studies"] for each in study["files"] if each["packed"]}
    assert {"burnin.json", "windows.jsonl", "verdict.json", "turn-00001/counters.jsonl"} <= named
    assert len(checked.about["runs"]) == 4


@pytest.mark.parametrize(
    ("file", "before", "after", "named"),
    [
        ("windows.jsonl", '"work": 100', '"work": 101', "window 1: work"),
        ("windows.jsonl", '"outcome": "ok"', '"outcome": "failed"', "window 1: outcome"),
        ("verdict.json", '"standing": "met"', '"standing": "not met"', "is stated as not met and computed as met"),
    ],
)
def test_a_window_or_a_ruling_that_does_not_follow_is_named(
    tmp_path: Path, file: str, before: str, after: str, named: str
) -> None:
    driven(tmp_path / "runs", training(), for_="20s", turn="20s")
    path = folder_of(tmp_path / "runs") / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    checked = tl.verify(tl.evidence(folder_of(tmp_path / "runs"), to=tmp_path / "pack.zip"))
    (wrong,) = [each for each in checked.findings if each.code == "pack-figures-differ"]
    assert any(named in each for each in wrong.numbers["names"])


def test_a_machine_is_compared_with_its_last_acceptance(tmp_path: Path) -> None:
    driven(tmp_path / "before", training(), for_="10m", turn="300s", window="10s")
    (tmp_path / "mine.toml").write_text('[rate-of-last]\nlimit = 0.97\nunit = "ratio"\notherwise = "reject"\n')
    words = {"for_": "10m", "turn": "300s", "window": "10s", "criteria": str(tmp_path / "mine.toml"),
             "since": str(folder_of(tmp_path / "before"))}  # fmt: skip
    same = driven(tmp_path / "same", training(), **words)
    slower = driven(tmp_path / "slower", training(step_s=0.11), **words)
    assert [each.standing for each in same.judgement.rulings] == ["met"]
    assert [each.standing for each in slower.judgement.rulings] == ["not met"]
    assert slower.judgement.verdict == "reject"


@pytest.mark.parametrize("words", [("--for", "0s"), ("--for", "5x"), ("--for", "2m", "--window", "1h"), ()])
def test_bad_words_end_in_one_sentence(specs: list[str], tmp_path: Path, words: tuple[str, ...]) -> None:
    told = _call("burnin", specs[0], *words, "--out", tmp_path / "runs")
    assert told.exit_code == 2
    assert told.stdout == ""
    assert len(told.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()
