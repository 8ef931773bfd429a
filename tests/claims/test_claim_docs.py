"""The tutorial shows what `twinlens claim` prints."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from twinlens.cli.main import app

TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")


def test_the_tutorial_shows_what_the_command_prints() -> None:
    (block,) = re.findall(r'```console\n\$ twinlens claim "([^"]+)"\n(.*?)```', TUTORIAL, re.DOTALL)
    sentence, shown = block
    printed = CliRunner().invoke(app, ["claim", sentence]).stdout
    assert [line.rstrip() for line in printed.splitlines()] == shown.splitlines()
