"""`twinlens plan choose` as people call it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from twinlens.cli.main import app

TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
ASKED = ("--model", "70B", "--training", "30", "--users", "16", "--context", "8K")


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["plan", "choose", *words])


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--duty", "8h", "--precision", "bf16,fp8,nvfp4"),
        ("--train", "qlora"),
        ("--training", "0"),
        ("--beside", "8B,qwen3-8b:32:4K"),
        ("--beside", "8B", "--training", "0"),
        ("--beside", "8B,qwen3-8b::16K,gpt-oss-20b:3,8B:4:2K,8B:5", "--train", "qlora", "--duty", "8h"),
    ],
)
def test_the_first_screen_is_24_lines_of_80_columns(more: tuple[str, ...]) -> None:
    shown = call(*ASKED, *more)
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "Inference" in shown.stdout
    assert ("Training" in shown.stdout) is ("0" not in more)
    assert ("llama-3.1-8b on 1 (bandwidth" in " ".join(shown.stdout.split())) is ("--beside" in more)


def test_all_shows_every_candidate_and_every_reason() -> None:
    shown = call(*ASKED, "--all", "--ecc")
    assert shown.exit_code == 0
    for words in ("Not for training ", "has no ECC", "assumed", "cards", "is a processor"):
        assert words in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_json_has_two_rankings_and_sentences() -> None:
    found = json.loads(call(*ASKED, "--json").stdout)
    first = found["inference"]["candidates"][0]
    assert first["rate"]["low"] < first["rate"]["value"] < first["rate"]["high"]
    assert first["limit"]["gains"]["bandwidth"] > 1
    said = [found["branch"], found["system"], *found["links"], *found["cards"], *found["cluster"], *found["notes"]]
    said += [each["reason"] for each in found["training"]["rejected"]]
    assert said
    assert not [each for each in said if not each["text"] or each["code"] in each["text"]]


def test_models_beside_each_other_are_said_with_their_own_limits(tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    given = ("--model", "8B", "--inference", "100", "--beside", "70B", "--most-devices", "4", "--among", "H200,L4")
    shown = call(*given, "--all", "-o", str(page))
    assert shown.exit_code == 0, shown.output
    assert "l4 bf16 for llama-3.1-70b " in " ".join(shown.stdout.split())
    assert "The devices of each model" in page.read_text(encoding="utf-8")
    found = json.loads(call(*given, "--json").stdout)
    parts = found["inference"]["candidates"][0]["parts"]
    assert [each["model"] for each in parts] == ["llama-3.1-8b", "llama-3.1-70b"]
    assert all(each["limit"]["gains"]["bandwidth"] > 1 for each in parts)
    wrong = call("--model", "8B", "--inference", "100", "--beside", "qwen3-8")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "did you mean 'qwen3-8b'" in wrong.stderr


def test_what_no_device_does_is_one_sentence_and_2() -> None:
    wrong = call(*ASKED, "--speed", "100000")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "the nearest is" in wrong.stderr
    assert "possible with --speed" in wrong.stderr


def test_the_commands_of_the_tutorial_run(tmp_path: Path) -> None:
    commands = re.findall(r"^\$ twinlens plan choose (.*)$", TUTORIAL, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        shown = call(*shlex.split(command), "-o", str(tmp_path / "plan.html"))
        assert shown.exit_code == 0, shown.output
        assert "tied" in (tmp_path / "plan.html").read_text(encoding="utf-8") or "tie" in shown.stdout


def test_the_page_has_both_rankings_and_every_reason(tmp_path: Path) -> None:
    file = tmp_path / "plan.html"
    assert call(*ASKED, "-o", str(file)).exit_code == 0
    text = file.read_text(encoding="utf-8")
    for words in (
        "Inference: the smallest system",
        "Training: the smallest system",
        "is a processor",
        "Not for training",
    ):
        assert words in text


@pytest.mark.parametrize(
    "words",
    [
        ("--training", "0", "--context", "32K", "--power", "100W"),
        ("--training", "20", "--power", "120W"),
        ("--training", "0", "--speed", "5000"),
        ("--training", "0", "--ttft", "1ms"),
    ],
)
def test_what_is_said_to_be_possible_is(words: tuple[str, ...]) -> None:
    given = ("--model", "70B", "--users", "16", *words)
    refused = CliRunner().invoke(app, ["plan", "choose", *given])
    assert refused.exit_code == 2
    said = re.search(r"possible with (--\w+) (\S+)", " ".join(refused.stderr.split()))
    assert said is not None
    at = given.index(said[1]) + 1
    again = CliRunner().invoke(app, ["plan", "choose", *given[:at], said[2], *given[at + 1 :]])
    assert again.exit_code == 0, again.stderr
