"""Runs one command to its end and keeps its exit code, whatever becomes of the site that asked for it.

Run by path with a bare interpreter (standard library only): `keeper.py FOLDER COMMAND…`. The folder gets `out.txt` and
`err.txt`, `child` (the process number of the command) and, when it is over, `exit` (its exit code). The keeper leads a
process group: an interrupt is sent to the group, and the keeper waits for what the command makes of it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

_NOT_STARTED = 3


def main(folder: Path, command: list[str]) -> int:
    """Run it; its exit code, that of a signal as a shell says it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # a handler, since what is ignored would be ignored by the command too
    with (folder / "out.txt").open("wb") as out, (folder / "err.txt").open("wb") as err:
        try:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except OSError as error:
            err.write(f"{command[0]} cannot be started: {error.strerror}\n".encode())
            return _NOT_STARTED
        _write(folder / "child", child.pid)
        code = child.wait()
    return code if code >= 0 else 128 - code


def _write(path: Path, number: int) -> None:
    """Whole or not at all: a reader never sees half a number."""
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(str(number))
    fresh.replace(path)


if __name__ == "__main__":
    _write(Path(sys.argv[1]) / "exit", main(Path(sys.argv[1]), sys.argv[2:]))
