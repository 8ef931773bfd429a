"""What the system refuses is one sentence with the path: full disks, files where folders should be, poor terminals."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from material import twinlens
from twinlens.record.store import write_json


def test_a_file_where_a_folder_should_be_is_one_sentence_with_the_path(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = twinlens("measure", spec, "--out", tmp_path / "file" / "runs", "-q")
    assert done.returncode == 3
    assert len(done.stderr.strip().splitlines()) == 1
    assert str(tmp_path / "file") in done.stderr
    assert os.strerror(errno.ENOTDIR) in done.stderr
    assert "twinlens explain TL301" in done.stderr


def test_a_write_that_fails_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left") as failed:
        write_json(tmp_path / "run.json", {})
    assert failed.value.filename == str(tmp_path / "run.json")


def test_a_report_into_no_folder_is_refused_and_none_is_made(measured_runs: Path, tmp_path: Path) -> None:
    done = twinlens("report", measured_runs, "-o", tmp_path / "none" / "x.html")
    assert done.returncode == 2
    assert f"there is no folder '{tmp_path / 'none'}'" in done.stderr
    assert not (tmp_path / "none").exists()


def test_a_terminal_without_our_letters_gets_no_traceback(measured_runs: Path) -> None:
    done = twinlens("show", measured_runs, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.isascii()
    assert "fp32" in done.stdout
