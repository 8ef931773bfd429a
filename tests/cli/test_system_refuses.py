"""What the system refuses is one sentence with the path: full disks, files where folders should be, poor terminals."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from material import called, twinlens
from twinlens.cli.screen import sentences
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


@pytest.mark.parametrize("code", [errno.EROFS, errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_every_refusal_names_the_path_and_what_the_system_says(code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left, sentences():
        raise OSError(code, os.strerror(code), "/archive/runs/a/run.json")
    assert left.value.code == 3
    printed = capsys.readouterr().err
    assert len(printed.strip().splitlines()) == 1
    assert printed.startswith(f"twinlens: /archive/runs/a/run.json: {os.strerror(code)}")
    assert ("free some space" in printed) == (code in (errno.ENOSPC, errno.EDQUOT))


_READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def read_only(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    """A command of ours, to which a folder is a read-only file system. Skips where the kernel grants no namespace."""
    words = ["unshare", "-rm", "sh", "-c", _READ_ONLY, str(folder)]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace to make a read-only file system in")
    asked = [sys.executable, "-m", "twinlens", *map(str, command)]
    return subprocess.run([*words, *asked], capture_output=True, text=True, check=False)


def test_a_read_only_archive_is_shown_and_nothing_is_written_to_it(measured_runs: Path, tmp_path: Path) -> None:
    archive = Path(shutil.copytree(measured_runs, tmp_path / "archive"))
    for derived in archive.rglob("summary.json"):
        derived.unlink()
    before = sorted(archive.rglob("*"))
    done = read_only(archive, "show", archive)
    assert done.returncode == 0, done.stderr
    assert "fp32" in done.stdout
    assert sorted(archive.rglob("*")) == before


def test_measuring_into_a_read_only_folder_is_one_sentence_with_the_path(spec: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    done = read_only(archive, "measure", spec, "--out", archive, "-q")
    assert done.returncode == 3
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert str(archive) in done.stderr
    assert os.strerror(errno.EROFS) in done.stderr
    assert list(archive.iterdir()) == []


def test_a_report_into_no_folder_is_refused_and_none_is_made(measured_runs: Path, tmp_path: Path) -> None:
    done = called("report", measured_runs, "-o", tmp_path / "none" / "x.html")
    assert done.exit_code == 2
    assert f"there is no folder '{tmp_path / 'none'}'" in done.stderr
    assert not (tmp_path / "none").exists()


def test_a_terminal_without_our_letters_gets_no_traceback(measured_runs: Path) -> None:
    done = twinlens("show", measured_runs, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.isascii()
    assert "fp32" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80, "letters of two for one of ours have room"


@pytest.mark.parametrize("how", [[], ["--all"]])
def test_no_line_of_piped_output_ends_in_spaces(measured_runs: Path, how: list[str]) -> None:
    lines = twinlens("show", measured_runs, *how).stdout.splitlines()
    assert len(lines) > 3
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("columns", ["", "0", "wide", "-4", "7", "40"])
def test_a_width_that_is_none_is_eighty_and_a_narrow_one_is_kept_to(measured_runs: Path, columns: str) -> None:
    done = called("show", measured_runs, COLUMNS=columns)
    assert (done.exit_code, done.exception, "Traceback" in done.stderr) == (0, None, False), done.stderr
    assert max(map(len, done.stdout.splitlines())) <= {"7": 20, "40": 40}.get(columns, 80)
