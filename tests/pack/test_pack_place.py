"""Folders that a killed process left are taken away; those of others stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from twinlens.pack.place import PREFIX, _tidied, fresh_place, is_left_behind
from twinlens.record.store import write_json
from twinlens.system.processes import process_of


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _tidied.cache_clear()


def _folder(parent: Path, name: str, process: object) -> Path:
    folder = parent / f"{PREFIX}{name}"
    folder.mkdir()
    (folder / "runs").mkdir()
    write_json(folder / "process.json", process)
    return folder


def _of_a_process_that_is_gone() -> dict[str, object]:
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    described = process_of(child.pid)
    child.communicate(b"\n")
    return described


def test_the_next_process_takes_away_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    gone = _of_a_process_that_is_gone()
    left = _folder(tmp_path, "left", gone)
    of_another_host = _folder(tmp_path, "host", gone | {"host": "another"})
    unmarked = tmp_path / f"{PREFIX}unmarked"
    unmarked.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_json(elsewhere / "process.json", gone)
    link = tmp_path / f"{PREFIX}link"
    link.symlink_to(elsewhere)
    with fresh_place() as place:
        assert not left.exists()
        assert all(each.exists() for each in (of_another_host, unmarked, elsewhere, link))
        assert not is_left_behind(Path(place))
    assert not Path(place).exists()


def test_a_folder_of_another_user_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = _folder(tmp_path, "left", _of_a_process_that_is_gone())
    assert is_left_behind(left)
    monkeypatch.setattr("os.getuid", lambda: -1)
    assert not is_left_behind(left)
