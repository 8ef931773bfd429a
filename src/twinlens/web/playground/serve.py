"""`python -m twinlens.web.playground.serve serve EXAMPLE FOLDER`: one launched server, up until it is told to end.

A job of the site, as a measurement is: it starts the server through the launcher that measurements use, writes where it
is to `FOLDER/running.json`, and ends it with everything it started when it is interrupted.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from twinlens.errors import BadInput, TwinlensError
from twinlens.executors.registry import launcher, launches
from twinlens.record.store import write_json
from twinlens.spec.load import load_example
from twinlens.spec.source.example import Example, examples
from twinlens.spec.study import RunSpec, Study
from twinlens.system.interrupts import interrupt_once, raising_interrupts
from twinlens.web.playground.wanted import CODE
from twinlens.web.work.job import WHERE

_LOOK_S = 1.0
_STOPPED = 130


@lru_cache(maxsize=1)
def servable() -> tuple[Example, ...]:
    """The examples whose server can be started here and kept up."""
    return tuple(each for each in examples() if _starts_server(each))


def _starts_server(shipped: Example) -> bool:
    try:
        study = load_example(shipped.name)
    except BadInput:
        return False
    return study.tune is None and study.lens == "inference" and launches(study.executor.kind)


def spec_of(study: Study) -> RunSpec:
    """The first point of a study, whose server is started. Raises BadInput (TL273) where it starts none."""
    spec = study.runs()[0]
    if not launches(spec.executor.kind):
        raise BadInput(f"{study.name} starts no server: its executor is {spec.executor.kind}", code=CODE)
    return spec


def serve(folder: Path, study: Study, say: Callable[[str], None]) -> int:
    """Start it, say where it is, and wait until it ends or is interrupted; the exit code."""
    starter = launcher(study.runs()[0].executor.kind)
    assert starter is not None
    with raising_interrupts(), interrupt_once():
        try:
            up = starter.launch(spec_of(study), folder / "server.log", say)
        except KeyboardInterrupt:
            return _STOPPED
        try:
            is_random = spec_of(study).model.folder is None
            write_json(folder / WHERE, {"url": up.running.url, "model": up.running.model, "is_random": is_random})
            say(f"{up.running.model} is up at {up.running.url} after {up.running.ready_s:.1f} s")
            while up.is_well():
                time.sleep(_LOOK_S)
            say("the server has ended by itself")
            return 3
        except KeyboardInterrupt:
            say("ending the server")
            return _STOPPED
        finally:
            up.stop()
            (folder / WHERE).unlink(missing_ok=True)


def main(folder: str, name: str, write: Callable[[str], object]) -> int:
    """The command. What goes wrong is one sentence."""
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def say(phrase: str) -> None:
        write(f"{phrase}\n")

    try:
        return serve(Path(folder), load_example(name), say)
    except TwinlensError as error:
        say(f"twinlens: {error} (twinlens explain {error.code})")
        return error.exit_code


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[3], sys.argv[2], _write))
