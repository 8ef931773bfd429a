"""A power limit that is set for a while, and set back whatever ends the program.

A journal in the cache folder says what was found. A process of its own session (`python -m
twinlens.system.limit_keeper JOURNAL`) holds the other end of a pipe: when that closes, however the holder went, it sets
back what the journal says and removes it. Where that process is killed too, the next start finds the journal.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.system.document import read_json
from twinlens.system.home_folder import cache_folder
from twinlens.system.interrupts import ignore_interrupts
from twinlens.system.power_limit import POWERCAP, REFUSED, PowerLimit, read_raw, write_raw
from twinlens.system.processes import is_alive, this_machine

_STARTS_S, _ENDS_S, _POLL_S = 60.0, 30.0, 1.0
_NOT_SET_BACK = "TL312"
_FIELDS = {"machine", "pid", "born_s", "powercap", "limits"}


@contextlib.contextmanager
def held_limits(
    limits: Sequence[PowerLimit], watts: float, folder: Path | None = None, powercap: Path = POWERCAP
) -> Iterator[None]:
    """Meanwhile each device has this limit, and afterwards the one that it had.

    Raises BadInput (TL266) where a limit is outside the range of its device, is refused by the driver, or is held by
    another process; ExecutorFailed (TL312) where it could not be set back, which names the limit that was found.
    """
    wanted = {limit.device: limit.raw_of(watts) for limit in limits}
    folder = folder or journal_folder()
    refuse_left(folder)
    journal = _written(folder, limits, powercap)
    keeper = None
    try:
        keeper = _keeper(journal)
        for device, raw in wanted.items():
            write_raw(device, raw, powercap)
        _note_set(journal, powercap)
        yield
    finally:
        with ignore_interrupts():
            if keeper is not None:
                _dismiss(keeper)
            if journal.exists() and (said := set_back(journal)):
                raise ExecutorFailed(f"{said}; set it by hand", code=_NOT_SET_BACK)


def journal_folder() -> Path:
    """Where the journals of limits lie that are set now, or were left behind."""
    return cache_folder() / "power-limits"


def refuse_left(folder: Path | None = None) -> None:
    """Set back what processes that are gone have left. Raises BadInput (TL266) where that cannot be done: what is
    measured under such a limit is another machine."""
    folder = folder or journal_folder()
    if left := set_back_left(folder):
        raise BadInput(
            f"a run that was killed has left a power limit behind: {left[0]}; set it by hand, and remove the journals "
            f"in {folder}",
            code=REFUSED,
        )


def set_back_left(folder: Path | None = None) -> tuple[str, ...]:
    """Set back what processes that are gone have left. Returns a sentence for each device that could not be."""
    folder = folder or journal_folder()
    left = []
    for journal in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        said = _read(journal)
        if said is not None and not _holds(said):
            left.append(set_back(journal))
    return tuple(filter(None, left))


def set_back(journal: Path) -> str:
    """Set back what a journal says and remove it; a sentence where that failed, and the journal stays.

    A limit that is no longer the one that was set was changed by somebody else since, and is theirs.
    """
    said = _read(journal)
    if said is None:
        return ""
    failed = []
    for device, limit in said["limits"].items() if said["machine"] == this_machine() else ():
        powercap, found, was_set = Path(said["powercap"]), limit["found"], limit["set"]
        now = read_raw(device, powercap)
        if now == found or (was_set is not None and now is not None and now != was_set):
            continue
        try:
            write_raw(device, found, powercap)
        except BadInput as refused:
            failed.append(f"{refused}; it was {found} {'mW' if device.startswith('gpu') else 'µW'}")
    if not failed:
        journal.unlink(missing_ok=True)
    return "; ".join(failed)


def _read(journal: Path) -> dict[str, Any] | None:
    """A journal; None where it is gone. One that is broken was being written: nothing had been set yet."""
    try:
        said: dict[str, Any] = read_json(journal)
        return said if said.keys() >= _FIELDS else None
    except (OSError, ValueError, AttributeError):
        return None


def _holds(said: dict[str, Any]) -> bool:
    """Whether the process that wrote a journal still runs, on this start of this machine."""
    return said["machine"] == this_machine() and is_alive(said["pid"], said["born_s"])


def _written(folder: Path, limits: Sequence[PowerLimit], powercap: Path) -> Path:
    """The journal of these limits. Raises BadInput (TL266) where another process holds one of them."""
    import psutil

    folder.mkdir(parents=True, exist_ok=True)
    born_s = psutil.Process().create_time()
    journal = folder / f"{os.getpid()}-{int(born_s * 1000)}.json"
    with _alone(folder):
        for other in folder.glob("*.json"):
            said = _read(other) or {"limits": {}}
            if shared := sorted(said["limits"].keys() & {limit.device for limit in limits}):
                raise BadInput(
                    f"the power limit of {shared[0]} is held by another run (process {said['pid']}); wait for it",
                    code=REFUSED,
                )
        found = {limit.device: {"found": limit.units, "set": None} for limit in limits}
        whose = {"machine": this_machine(), "pid": os.getpid(), "born_s": born_s, "powercap": str(powercap)}
        _write(journal, whose | {"limits": found})
    return journal


def _note_set(journal: Path, powercap: Path) -> None:
    """Write down what each device says that it was set to: drivers round."""
    said = _read(journal)
    if said is not None:
        for device, limit in said["limits"].items():
            limit["set"] = read_raw(device, powercap)
        _write(journal, said)


def _write(journal: Path, said: dict[str, Any]) -> None:
    fresh = journal.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(said, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(journal)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


# The process that outlives its holder.


def _keeper(journal: Path) -> subprocess.Popen[bytes]:
    """Started, and ready to set back. Raises ExecutorFailed (TL312) where it does not start; nothing is set yet."""
    keeper = subprocess.Popen(
        [sys.executable, "-m", "twinlens.system.limit_keeper", str(journal)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # It goes on as a child of nobody, so that whoever ends this process and all below it spares it.
    if _line(keeper, _STARTS_S) != b"ready\n" or keeper.wait(_STARTS_S):
        raise ExecutorFailed("the process that would set the power limit back did not start", code=_NOT_SET_BACK)
    return keeper


def _dismiss(keeper: subprocess.Popen[bytes]) -> None:
    """Let it set back, and wait until it has."""
    assert keeper.stdin is not None
    with contextlib.suppress(OSError):
        keeper.stdin.close()
    _line(keeper, _ENDS_S)


def _line(keeper: subprocess.Popen[bytes], most_s: float) -> bytes:
    assert keeper.stdout is not None
    return keeper.stdout.readline() if select.select([keeper.stdout], [], [], most_s)[0] else b""


def main(journal: Path) -> int:
    """Wait until the holder has closed its end of the pipe or is gone, then set back."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork():
        os._exit(0)
    os.write(1, b"ready\n")
    said = _read(journal)
    while said is not None and _holds(said):
        if select.select([0], [], [], _POLL_S)[0] and not os.read(0, 64):
            break
    set_back(journal)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
