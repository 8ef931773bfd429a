"""The process that measures a run: started, stopped, and what its end says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed, Interrupted, TwinlensError
from twinlens.measurement.worker import PARENT
from twinlens.record.store import end_run, read_run

_GRACE_S = 15.0
_INTERRUPTED = (130, -signal.SIGINT)


def started(run: Path, *switches: str) -> subprocess.Popen[str]:
    """A worker for a run folder, whose stderr goes to the run's log. It speaks JSON lines on stdout."""
    with (run / "log.txt").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "twinlens.measurement.worker", str(run), *switches],
            stdin=subprocess.PIPE if switches else None,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, PARENT: str(os.getpid())},
        )


def gone_on(folder: Path) -> str:
    """The sentence of an interrupted study."""
    return f"interrupted; what was measured is kept in {folder}; run it again to go on"


def stop(worker: subprocess.Popen[str]) -> None:
    """Let it write down that it was interrupted; a terminal has already told it, another caller may not have."""
    worker.send_signal(signal.SIGTERM)
    try:
        worker.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


def say_interrupted(run: Path) -> None:
    """Write down that a run was interrupted, where its worker had no time to."""
    if read_run(run).sections.state == "running":
        end_run(run, "interrupted", "interrupted by the user")


def raise_for(code: int, last: dict[str, Any], run: Path) -> None:
    """Raise what a worker ended with, by its code and `last` line; ends as failed a run that could not say it."""
    if code == 0:
        return
    if "error" in last:
        kinds: dict[int, type[TwinlensError]] = {2: BadInput, 130: Interrupted}
        raise kinds.get(last["exit"], ExecutorFailed)(last["error"], code=last["code"])
    if code in _INTERRUPTED:  # before it could say a word, or before Python heard signals
        say_interrupted(run)
        raise Interrupted(gone_on(run.parent))
    how = f"was killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
    sentence = f"the worker {how}; its rows so far and its log are in {run}"
    if read_run(run).sections.state == "running":  # it had no time to say so itself
        end_run(run, "failed", sentence)
    raise ExecutorFailed(sentence, code="TL302")
