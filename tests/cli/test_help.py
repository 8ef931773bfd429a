"""Every verb's help has its options under heads, an example that runs, and no type of Python."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from twinlens.cli.main import app
from twinlens.cli.table import HEADS

COMMANDS = app.commands
PLAN = COMMANDS["plan"].commands
VERBS = [(verb,) for verb in COMMANDS if verb != "plan"] + [("plan", verb) for verb in PLAN]


def call(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})


def example_of(shown: str) -> list[str]:
    """The words of the example in a help, without `twinlens`."""
    (line,) = (line for line in shown.splitlines() if line.startswith("  Example: "))
    return shlex.split(line.removeprefix("  Example: twinlens "))


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_verbs_help_names_no_type_and_ends_with_an_example_on_a_line(verb: tuple[str, ...]) -> None:
    shown = call(*verb, "--help").stdout
    assert not re.search(r"<\w|list\[", shown), "a type of Python"
    assert max(map(len, shown.splitlines())) <= 80
    assert tuple(example_of(shown)[: len(verb)]) == verb
    assert shown.rstrip().splitlines()[-1].startswith("  Example: ")


@pytest.mark.parametrize("verb", PLAN)
def test_options_of_planning_stand_under_heads(verb: str) -> None:
    shown = call("plan", verb, "--help").stdout
    heads = re.findall(r"^(\S[^:]*):$", shown, re.MULTILINE)
    known = [head for head in heads if head != "Positional arguments"]
    assert known == [head for head in HEADS if head in known], "in one order"
    assert max(len(part.splitlines()) for part in re.split(r"^\S[^:]*:$", shown, flags=re.MULTILINE)) <= 20
    for option in PLAN[verb].params:
        assert (
            getattr(option, "hidden", False)
            or shown.count(f" {option.opts[-1]} ") + shown.count(f" {option.opts[-1]},") >= 1
            or (option.param_type_name == "argument")
        )


@pytest.mark.parametrize("verb", [verb for verb in PLAN if verb not in ("quotes", "calibrate")])
def test_examples_of_planning_run(verb: str) -> None:
    words = example_of(call("plan", verb, "--help").stdout)
    done = call(*words)
    assert (done.exit_code, done.stderr) == (0, "")


def test_the_example_of_a_check_and_of_a_claim_run() -> None:
    for verb in ("check", "claim", "explain", "list"):
        assert call(*example_of(call(verb, "--help").stdout)).exit_code == 0


def test_the_help_of_at_says_how_to_search() -> None:
    for verb in ("measure", "check", "new"):
        assert "rate_per_s=search" in " ".join(call(verb, "--help").stdout.split())


def test_a_check_is_a_screen_and_the_spec_stands_behind_a_flag(tmp_path: Path) -> None:
    for name in ("chat", "batching", "ladder-training", "search"):
        shown, whole = call("check", name).stdout, call("check", name, "--all").stdout
        assert len(shown.splitlines()) <= 24
        assert shown.startswith(f"{name} can")
        assert "[protocol]" not in shown
        assert "[protocol]" in whole
    rates = ",".join(str(rate) for rate in range(1, 31))
    many = call("check", "chat", "--at", f"rate_per_s={rates}").stdout
    assert len(many.splitlines()) <= 24
    assert "… 25 more lines: --all" in many
    assert "at 30/s about" in call("check", "chat", "--at", f"rate_per_s={rates}", "--all").stdout
