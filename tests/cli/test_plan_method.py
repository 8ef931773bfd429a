"""`twinlens plan method` as people call it: one screen, JSON that parses, one sentence for what cannot be."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from twinlens.cli.main import app

ASKED = ("--model", "8B", "--device", "H100", "--corpus", "20M", "--changes", "daily", "--requests", "1000000")
TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["plan", "method", *words])


@pytest.mark.parametrize(
    "words",
    [
        ASKED,
        (*ASKED, "--style", "--examples", "2000"),
        ("--model", "70B", "--device", "H100", "--own-weights", "--style", "--corpus", "1M", "--changes", "daily"),
        ("--model", "13B", "--device", "L40S", "--budget", "10", "--price", "1..2", "--style", "--examples", "100"),
    ],
)
def test_a_choice_is_one_screen(words: tuple[str, ...]) -> None:
    shown = call(*words)
    assert shown.exit_code == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "…" not in shown.stdout
    assert len(call(*words, "--why").stdout) > len(shown.stdout)


def test_the_answer_the_reason_and_what_flips_it_are_said() -> None:
    shown = call(*ASKED).stdout
    assert shown.startswith("Retrieval for llama-3.1-8b: it meets all that is needed")
    assert "2312.05934" in shown
    assert "flips" in shown
    assert "a device-hour is $" in " ".join(shown.split())


def test_json_has_every_way_with_its_arithmetic() -> None:
    found = json.loads(call(*ASKED, "--json").stdout)
    assert found["chosen"] == "retrieval"
    assert len(found["ways"]) == 8
    way = next(each for each in found["ways"] if each["name"] == "retrieval")
    assert way["meets"]["knowledge"]["level"] == "yes"
    assert way["hours"]["inputs"]
    assert all(each["text"] for each in found["flips"])
    assert all(each["text"] for one in found["ways"] for each in one["against"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--corpus", "nan"), "is no number of tokens"),
        (("--changes", "hourly"), "--changes 'hourly' is not known"),
        (("--requests", "0"), "--requests is above 0"),
        (("--requests", "-5"), "--requests is above 0"),
        (("--price", "free"), "is no money"),
        (("--price", "-2"), "--price is above 0"),
        (("--price", "nan"), "--price is above 0"),
        (("--price", "4..2"), "ends below its start"),
        (("--budget", "0"), "--budget is above 0"),
        (("--deadline", "12"), "write --deadline '12 h'"),
        (("--prompt", "8000", "--answer", "500"), "do not go into --context"),
        (("--epochs", "0"), "--epochs"),
        (("--mfu", "2"), "--mfu is above 0 and at most 1"),
    ],
)
def test_what_cannot_be_is_one_sentence(words: tuple[str, ...], says: str) -> None:
    wrong = call(*ASKED, *words)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("twinlens: ")
    assert says in " ".join(wrong.stderr.split())


def test_a_budget_needs_a_price_and_changes_a_corpus() -> None:
    bare = ("--model", "8B", "--device", "grace")
    assert "add --price" in call(*bare, "--budget", "10").stderr
    assert "add --corpus" in call(*bare, "--changes", "daily").stderr


def test_the_commands_of_the_tutorial_run() -> None:
    commands = re.findall(r"^\$ twinlens plan method (.*)$", TUTORIAL, re.MULTILINE)
    assert len(commands) >= 2
    for each in commands:
        assert call(*shlex.split(each)).exit_code == 0, each
