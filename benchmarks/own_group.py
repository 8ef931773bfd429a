"""A command in a process group of its own: what it has answered so far, and an end for all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import psutil

MARK = "ANSWER "
"""Before a line that holds the answer so far, as JSON."""
GRACE_S = 10.0
INTERRUPTED = "it was interrupted"


def last_answer(
    command: Sequence[str], where: Path, log: Path, limit_s: float, tell: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """The last answer that the command printed; "unfinished" in it says why there is no more, "error" why there is
    none. Each but the last goes to `tell`. Nothing that the command started is left, whatever happens."""
    with log.open("w") as kept:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=kept, text=True, cwd=where,
                                   start_new_session=True)  # fmt: skip
        said: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(process.stdout, said), daemon=True).start()
        found, why = dict[str, Any](), ""
        deadline_s = time.monotonic() + limit_s
        try:
            while (line := said.get(timeout=max(0.0, deadline_s - time.monotonic()))) is not None:
                kept.write(line)
                if line.startswith(MARK) and isinstance(answer := _read_json(line), dict):
                    found = answer
                    tell(answer)
            code = process.wait(timeout=GRACE_S)
            why = f"it ended with code {code}; see {log.name}" if code else ""
        except (queue.Empty, subprocess.TimeoutExpired):
            why = f"it took more than {limit_s:.0f} s"
        except KeyboardInterrupt:
            why = INTERRUPTED
        finally:
            _end(process)
    if not found:
        return {"error": why or f"it gave no answer; see {log.name}"}
    return found | {"unfinished": why} if why else found


def _read(out: TextIO | None, said: queue.Queue[str | None]) -> None:
    with contextlib.suppress(ValueError):  # closed while it is read
        for line in out or ():
            said.put(line)
    said.put(None)


def _read_json(line: str) -> Any:
    try:
        return json.loads(line.removeprefix(MARK))
    except ValueError:
        return None


def _end(process: subprocess.Popen[str]) -> None:
    """The group, and descendants that left it for a session of their own: asked first, then killed."""
    started = list[psutil.Process]()
    with contextlib.suppress(psutil.Error):
        started = psutil.Process(process.pid).children(recursive=True)
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, kind)
        for child in started:
            with contextlib.suppress(psutil.Error):
                child.send_signal(kind)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE_S)
        _, started = psutil.wait_procs(started, timeout=GRACE_S)
        if process.poll() is not None and not started and not _group_lives(process.pid):
            return


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
