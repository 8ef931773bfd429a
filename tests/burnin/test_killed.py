"""A burn-in that is killed, runs out of disk or is interrupted goes on where it was, and loses no whole window."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from tests.burnin.driving import SOUND, decode, driven, folder_of, means, refuse_unsound, training

from twinlens.acceptance.driving import journal
from twinlens.acceptance.driving.drive import INTERRUPTED, Means
from twinlens.acceptance.driving.folder import held
from twinlens.acceptance.window import read_burnin
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.record.store import read_record

_SHORT = {"for_": "40s", "turn": "20s", "window": "10s"}
_REAL = {"for_": "3s", "turn": "1s", "window": "0.25s"}


class Killed(BaseException):
    """What no layer catches, as nothing catches SIGKILL."""


@contextmanager
def at_write(number: int, error: BaseException) -> Iterator[list[int]]:
    """Raise at the so-and-so-manieth write that is brought to the disk or renamed into place; counts them."""
    seen, sync, replace = [0], os.fsync, Path.replace

    def reached() -> None:
        seen[0] += 1
        if seen[0] == number:
            raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: (reached(), sync(handle))[1])
        patch.setattr(Path, "replace", lambda path, to: (reached(), replace(path, to))[1])
        yield seen


def test_it_goes_on_from_a_kill_at_any_write(tmp_path: Path) -> None:
    with at_write(10**9, Killed()) as seen:
        driven(tmp_path / "whole", **_SHORT)
    whole = [(each.workload, each.seconds, each.work) for each in refuse_unsound(tmp_path / "whole")]
    assert seen[0] > 20
    for number in range(2, seen[0] + 1, 5):
        out = tmp_path / str(number)
        with at_write(number, Killed()), pytest.raises(Killed):
            driven(out, **_SHORT)
        before = refuse_unsound(out) if (folder_of(out) / "windows.jsonl").exists() else ()
        found = driven(out, **_SHORT)
        windows = refuse_unsound(out)
        assert windows[: len(before)] == before
        assert sum(each.seconds for each in windows) == 40
        assert all(each.outcome == "ok" for each in windows)
        assert {(each.workload, each.seconds, each.work) for each in windows} <= set(whole)
        assert found.stopped == ""


def test_whole_windows_of_a_turn_that_was_killed_count(tmp_path: Path) -> None:
    driven(tmp_path, training(), for_="30s", turn="30s", by=means())
    folder = folder_of(tmp_path)
    (folder / "windows.jsonl").write_bytes((folder / "windows.jsonl").read_bytes().splitlines(keepends=True)[0][:-9])
    (folder / "verdict.json").unlink()
    found = driven(tmp_path, training(), for_="30s", turn="30s")
    assert [each.turn for each in found.windows] == [1, 1, 1]


def test_a_full_disk_ends_it_in_one_sentence_and_blames_no_machine(tmp_path: Path) -> None:
    with at_write(10**9, Killed()) as seen:
        driven(tmp_path / "whole", training(), **_SHORT)
    for number in range(3, seen[0], 5):
        out = tmp_path / str(number)
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")
        with at_write(number, full), pytest.raises((OSError, ExecutorFailed), match=r"No space left|disk is full"):
            driven(out, training(), **_SHORT)
        driven(out, training(), **_SHORT)
        assert [each.outcome for each in refuse_unsound(out)] == 4 * ["ok"]


def test_it_stops_before_the_disk_is_full_to_the_last_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LEAST_FREE_BYTES", 1 << 62)
    with pytest.raises(OSError, match="No space left"):
        driven(tmp_path, **_SHORT)
    monkeypatch.undo()
    driven(tmp_path, **_SHORT)
    assert sum(each.seconds for each in refuse_unsound(tmp_path)) == 40


def test_interrupted_it_is_judged_with_what_is_there_and_goes_on(tmp_path: Path) -> None:
    calls = iter(range(100))

    def products() -> tuple[dict[str, dict[str, str]], str]:
        if next(calls) == 2:  # after the second turn
            raise KeyboardInterrupt
        return SOUND, ""

    cut_short = driven(tmp_path, by=Means(products, means().counters), **_SHORT)
    assert cut_short.stopped == INTERRUPTED
    assert len(cut_short.windows) == 4
    assert not read_record(folder_of(tmp_path) / "verdict.json")["is_whole"]
    assert driven(tmp_path, by=means(), for_="40s", turn="20s", window="10s").stopped == ""
    assert [each.turn for each in refuse_unsound(tmp_path)] == [1, 1, 2, 2]


def test_two_at_once_on_one_folder_are_refused(tmp_path: Path) -> None:
    refused = []

    def products() -> tuple[dict[str, dict[str, str]], str]:
        with pytest.raises(BadInput, match="is driving the burn-in") as raised:
            driven(tmp_path, **_SHORT)
        refused.append(raised.value.code)
        return SOUND, ""

    driven(tmp_path, by=Means(products, means().counters), **_SHORT)
    assert refused == 3 * ["TL221"]


def test_criteria_count_as_they_were_when_it_began(tmp_path: Path) -> None:
    with at_write(12, Killed()), pytest.raises(Killed):
        driven(tmp_path, **_SHORT)
    mine = tmp_path / "mine.toml"
    mine.write_text('[checks]\nlimit = 0\nunit = "count"\n')
    with pytest.raises(BadInput, match="begun with other criteria"):
        driven(tmp_path, criteria=str(mine), **_SHORT)
    assert len(driven(tmp_path, **_SHORT).head.criteria) > 10


@pytest.mark.parametrize("lines", [1, 5])
def test_it_goes_on_from_a_real_kill(tmp_path: Path, lines: int) -> None:
    script = (
        "from pathlib import Path; from tests.burnin.test_killed import drive_for_real; "
        f"drive_for_real(Path({str(tmp_path)!r}))"
    )
    child = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    deadline_s = time.monotonic() + 120
    while child.poll() is None and time.monotonic() < deadline_s:
        files = [*tmp_path.glob("*/windows.jsonl")]
        if files and files[0].read_bytes().count(b"\n") >= lines:
            break
        time.sleep(0.02)
    assert child.poll() is None
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    _, before = read_burnin(folder_of(tmp_path))
    drive_for_real(tmp_path)
    windows = refuse_unsound(tmp_path)
    assert windows[: len(before)] == before
    assert sum(each.seconds for each in windows) == pytest.approx(3.0)
    assert [each["what"] for each in journal.read_lines(folder_of(tmp_path) / "journal.jsonl")] == ["begun", "resumed"]


def drive_for_real(out: Path) -> None:
    """In real time, three seconds of both lenses."""
    driven(out, training(pace=1, step_s=0.02), decode(pace=1, a_s=0.005, c_s=0.001, d_s=0.001), **_REAL)


def test_nothing_else_is_left_open(tmp_path: Path) -> None:
    def never(*_: object) -> NoReturn:
        raise AssertionError("no head is made again")

    driven(tmp_path, **_SHORT)
    head, _ = read_burnin(folder_of(tmp_path))
    with held(head, folder_of(tmp_path), never, fresh=False, keeps_criteria=True) as again:
        assert again.resumed
