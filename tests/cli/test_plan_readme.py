"""The plans of the README are answered, each on one screen, with the numbers that it states."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from twinlens.cli.main import app

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ twinlens (plan .*)$", README, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_plan_of_the_readme_is_answered_on_one_screen(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = CliRunner().invoke(app, shlex.split(command))
    assert told.exit_code == 0, told.stderr
    lines = told.stdout.splitlines()
    assert 5 < len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_the_readme_says_why_one_board_cannot_as_the_plan_does() -> None:
    fit = next(command for command in COMMANDS if "--users 16 --context 32K --device B200" in command)
    told = CliRunner().invoke(app, shlex.split(fit)).stdout
    assert told.startswith("No, it does not fit")
    for words in ("171.8 GB", "141.1 GB", "173.0 GB"):
        assert words in told
