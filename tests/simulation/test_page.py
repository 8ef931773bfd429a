"""The page on simulation: its commands run, and show what it says that they show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from twinlens.cli.main import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "simulating.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)


def test_the_commands_of_the_page_run_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    for name, table in re.findall(r"```toml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(table, encoding="utf-8")
    assert len(BLOCKS) == 9
    for block in BLOCKS:
        command, *shown = block.replace("\\\n", "").splitlines()
        told = CliRunner().invoke(app, shlex.split(command.removeprefix("$ twinlens ")))
        assert told.exit_code == 0, told.output
        assert [line for line in shown if line not in told.stdout.splitlines()] == [], told.stdout
