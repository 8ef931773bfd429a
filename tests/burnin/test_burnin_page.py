"""The page on accepting a machine: its commands run one after another."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.burnin.driving import decode, means, training

from twinlens.api.measuring import burnin as verb
from twinlens.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs" / "accept-a-machine.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page_run_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verb, "_means_here", means)
    monkeypatch.setattr(verb, "candidates", lambda gpus: (training(), decode()))
    for name, table in re.findall(r"```toml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(table, encoding="utf-8")
    commands = [line for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    assert len(commands) == 5
    for command in commands:
        told = CliRunner().invoke(app, shlex.split(_with_folder(command.removeprefix("$ twinlens "))))
        assert told.exit_code == 0, told.output


def _with_folder(command: str) -> str:
    newest = max(Path("runs").glob("*_burnin_*"), default=Path("runs/BURNIN"))
    return command.replace("runs/BURNIN", str(newest))
