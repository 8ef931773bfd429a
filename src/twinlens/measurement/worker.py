"""A fresh process for one run: `python -m twinlens.measurement.worker FOLDER [--turns]`. Speaks JSON lines on stdout.

With --turns it works when it is told to on stdin (measurement/turns/conductor.py), and waits in between.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from twinlens.errors import TwinlensError
from twinlens.system.interrupts import interrupt_once
from twinlens.system.processes import load_numpy

PARENT = "TWINLENS_PARENT"
"""The variable that names the process which waits for this one."""


def main(folder: Path, in_turns: bool = False) -> int:
    """Measure the run that `folder` asks for. Returns the exit code; the last line says an error, if any."""
    if not _end_with_parent():
        return 130
    with interrupt_once():
        return _work(folder, in_turns)


def _work(folder: Path, in_turns: bool) -> int:
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print goes to the log and never between our lines

    def tell(**message: Any) -> None:
        try:
            channel.write(json.dumps(message) + "\n")
        except BrokenPipeError:
            raise KeyboardInterrupt from None  # nobody waits for this run any more

    try:
        load_numpy()
        from twinlens.record.store import read_run, take_over

        take_over(folder)
        run = read_run(folder)
        from twinlens.executors.registry import is_ours, preload
        from twinlens.system.reading_process import keep_pandas_out

        if is_ours(run.spec.executor.kind):
            keep_pandas_out()
        from twinlens.measurement.session import run_here
        from twinlens.measurement.turns.worker_turn import TurnQueue

        server = run.sections.server
        turns = TurnQueue(sys.stdin, tell) if in_turns else None
        if turns is not None:
            preload(run.spec)
            turns.wait_to_open()
        run_here(folder, run.spec, lambda phrase, share, rows: tell(say=phrase, share=share, rows=rows), server, turns)
    except TwinlensError as error:
        tell(error=str(error), code=error.code, exit=error.exit_code)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def _end_with_parent() -> bool:
    """Ask Linux for SIGTERM when the parent is gone, so that a killed study leaves no process behind. False: it is."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM, 0, 0, 0)
    parent = os.environ.pop(PARENT, None)
    return parent is None or int(parent) == os.getppid()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "--turns" in sys.argv[2:]))
