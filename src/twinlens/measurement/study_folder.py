"""The folder of a study while it is measured: found or made, held by one command alone, and ended once it was shown."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.record.store import create_study, end_run, read_record, update_study
from twinlens.spec.study import Study
from twinlens.system.interrupts import interrupt_once
from twinlens.system.limit_keeper import refuse_left
from twinlens.system.processes import is_here

Find = Callable[[Study, Path], Path | None]
"""Finds the folder that asks for the same and is not over yet."""
_DYING_S, _POLL_S = 10.0, 0.05


@contextlib.contextmanager
def held_folder(study: Study, out: Path, find: Find, *, fresh: bool) -> Iterator[Path]:
    """The folder to measure into: what `find` finds under `out`, unless `fresh`, or a new one.

    No other command can hold it meanwhile; the death of this process, however it comes, lets go of it. Power limits
    that a killed run has left are set back first. Raises BadInput (TL221) where another holds it, (TL266) where a limit
    that was left cannot be set back.
    """
    out.mkdir(parents=True, exist_ok=True)
    refuse_left()
    with contextlib.ExitStack() as held, interrupt_once():
        with locked(out, wait=True):  # two commands that begin at once must not make a folder each
            unfinished = None if fresh else find(study, out)
            folder = unfinished or create_study(out, study)
            if not held.enter_context(locked(folder)):
                raise _taken(folder)
            update_study(folder, pid=os.getpid())
        if unfinished:
            _tidy(folder)
        yield folder


def is_held(folder: Path) -> bool:
    """Whether some process is measuring into a study folder now."""
    with locked(folder) as free:
        return not free


@contextlib.contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[bool]:
    """Lock the folder itself: nothing is left behind. Yields False where another has it and `wait` is not said.

    A file system without locks is taken to be free.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass
        yield True
    finally:
        os.close(handle)


def _taken(folder: Path) -> BadInput:
    with contextlib.suppress(BadInput):
        pid = read_record(folder / "study.json").get("pid")
        return BadInput(
            f"another twinlens (process {pid}) is measuring {folder}; wait for it, or measure beside it with --fresh "
            "or another --out",
            code="TL221",
        )
    return BadInput(f"another twinlens is measuring {folder}; wait for it, or take --fresh", code="TL221")


def _tidy(folder: Path) -> None:
    """After a kill: let the worker that is left end, write down which runs were cut off, drop what was only begun."""
    for place in sorted(folder.iterdir()):
        if not place.is_dir() or not place.name.startswith("20"):
            continue
        if not (place / "run.json").exists():
            with contextlib.suppress(OSError):
                for half in place.glob(".run.json.*"):
                    half.unlink()
                place.rmdir()  # only where it is empty
            continue
        await_end(place)
        if _record(place).get("state") == "running":
            end_run(place, "interrupted", "its process was killed")


def await_end(run: Path) -> None:
    """Wait for the worker of a command that is gone: it was told to end, and must not write beside its successor."""
    deadline_s = time.monotonic() + _DYING_S
    while (record := _record(run)).get("state") == "running" and "process" in record:
        if not is_here(record["process"]) or record.get("pid") == os.getpid():
            return
        if time.monotonic() > deadline_s:  # deaf in some long call of a library; nobody waits for what it measures
            with contextlib.suppress(ProcessLookupError):
                os.kill(record["process"]["pid"], signal.SIGKILL)
        time.sleep(_POLL_S)


def _record(run: Path) -> dict[str, Any]:
    try:
        return read_record(run / "run.json")
    except BadInput:
        return {}  # a broken neighbour is no reason to stop
