"""The tutorial answers what it costs and whether to buy: its commands run, and its numbers are theirs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from twinlens.cli.main import app

TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ twinlens (plan (?:cost|roi) .*)$", TUTORIAL, re.MULTILINE)


@pytest.mark.parametrize("words", COMMANDS)
def test_the_commands_of_the_tutorial_answer_on_one_screen(words: str) -> None:
    done = CliRunner().invoke(app, shlex.split(words))
    assert done.exit_code == 0, done.stderr
    assert len(done.stdout.splitlines()) <= 24


def test_its_numbers_are_what_the_commands_say() -> None:
    said = [" ".join(CliRunner().invoke(app, shlex.split(words)).stdout.split()) for words in COMMANDS]
    assert len(said) == 4
    for place, number in ((0, "$0.000208"), (1, "$0.00011/"), (2, "month 85")):
        assert number in said[place]
    whole = re.search(r"busy for (\d+) of its 730 hours", TUTORIAL)
    assert whole is not None
    assert int(whole[1]) == round(1000 * 10 * 365 / 12 / (4 * 3600))
