"""`twinlens new`: a spec file to edit, and never one that is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import twinlens as tl
from material import measured, study_of, training
from plain_server import Plain, plain
from twinlens.cli.main import app
from twinlens.record.store import create_study
from twinlens.spec.load import load
from twinlens.spec.source.example import examples


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", [example.name for example in examples()])
def test_each_example_is_written_as_it_stands_and_is_the_same_study(name: str) -> None:
    done = call("new", name)
    assert done.exit_code == 0, done.stderr
    assert f"twinlens measure {name}.toml" in done.stderr
    assert Path(f"{name}.toml").read_text("utf-8").startswith("# ")
    assert load(f"{name}.toml") == load(name)


def test_a_file_is_never_overwritten() -> None:
    Path("chat.toml").write_text("mine")
    done = call("new", "chat")
    assert done.exit_code == 2
    assert "is there already" in done.stderr
    assert Path("chat.toml").read_text() == "mine"
    assert call("new", "chat", "-o", "other.toml").exit_code == 0
    assert call("new", "chat", "-o", "no/such/folder.toml").exit_code == 2


def test_what_was_measured_can_be_written_and_measured_again(tmp_path: Path) -> None:
    study = study_of(training("fake", sweep={"precision": ["fp32", "bf16"]}))
    folder = create_study(tmp_path / "runs", study)
    assert load(folder / "spec.toml") == study
    assert call("new", "--from", folder).exit_code == 0
    assert load("small.toml") == study
    run = measured(tmp_path / "runs", training("fake"))
    assert load(tl.new(run.folder, "again.toml")).runs()[0] == run.spec
    assert load(tl.new(study.at(batch=1), "third.toml")) == study
    done = call("measure", run.folder, "--out", "more", "-q")
    assert done.exit_code == 0, done.stderr


def test_settings_go_into_the_file() -> None:
    assert call("new", "chat", "--at", "rate_per_s=1", "--set", "name=mine").exit_code == 0
    assert load("mine.toml").sweep == {"rate_per_s": (1,)}


def test_a_server_that_is_up_can_be_a_file() -> None:
    with plain(Plain()) as server:
        done = call("new", "--url", server.url, "--at", "rate_per_s=1,2")
        assert done.exit_code == 0, done.stderr
        study = load("Qwen3-8B.toml")
        assert study.executor.options["url"] == f"{server.url}/v1"
        assert study == tl.attach(server.url, None, ["sweep.rate_per_s=[1, 2]"])


@pytest.mark.parametrize("words", [[], ["chat", "--from", "x"], ["--from", "nowhere"], ["chta"]])
def test_what_cannot_be_written_is_one_sentence(words: list[str]) -> None:
    done = call("new", *words)
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
