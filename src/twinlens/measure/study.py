"""A study: its runs one after another, each in a fresh process, interleaved, resumable, nothing lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed, Interrupted, TwinlensError
from twinlens.executors.launch.running import Running
from twinlens.measure.launched import SharedServer, shared_server, together
from twinlens.measure.refuse import refuse_what_cannot_run
from twinlens.measure.session import Say, run_here
from twinlens.record.run import Run
from twinlens.record.store import create_run, create_study, end_run, find_runs, read_run, read_study, update_run
from twinlens.spec.study import RunSpec, Study

_GRACE_S = 15.0


@dataclass(frozen=True, slots=True)
class Event:
    """Where a study is: run `number` of `total` (from 1), what it does, how far it is (0-1), its rows so far."""

    number: int
    total: int
    run: RunSpec
    phrase: str
    share: float
    rows: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A study folder and its runs. `failures`: what kept runs from finishing."""

    folder: Path
    runs: tuple[Run, ...]
    resumed: int
    failures: tuple[ExecutorFailed, ...]


Watch = Callable[[Event], None]


def measure_study(study: Study, out: Path, watch: Watch = lambda event: None, *, fresh: bool = False) -> Outcome:
    """Measure all runs of a study that are not there yet.

    An unfinished study folder of the same spec under `out` is gone on with, unless `fresh`. A run that fails is
    recorded and the others go on. Raises BadInput before or at the first run that cannot be run, and Interrupted.
    """
    planned = together(study.runs())
    for spec in study.point_runs():
        refuse_what_cannot_run(spec)
    folder = None if fresh else unfinished_study(study, out)
    finished = _finished(folder) if folder else set()
    folder = folder or create_study(out, study)
    resumed, failures = len(finished), list[ExecutorFailed]()
    with shared_server(folder) as servers:
        for number, spec in enumerate(planned, start=1):
            if spec.fingerprint() in finished:
                continue
            say = partial(_watched, watch, number, len(planned), spec)
            try:
                measure_one(folder, spec, say, _server_for(servers, folder, spec, say))
            except ExecutorFailed as error:
                failures.append(
                    ExecutorFailed(f"{spec.point.precision}, repeat {spec.repeat}: {error}", code=error.code)
                )
            except KeyboardInterrupt:  # while a server was starting: no run has begun
                raise Interrupted(_gone_on(folder)) from None
    return Outcome(folder, tuple(find_runs(folder)), resumed, tuple(failures))


def _watched(watch: Watch, number: int, total: int, spec: RunSpec, phrase: str, share: float, rows: int) -> None:
    watch(Event(number, total, spec, phrase, share, rows))


def _server_for(servers: SharedServer, folder: Path, spec: RunSpec, say: Say) -> Running | None:
    """The server a run shares; a run whose server does not come up is on disk as failed."""
    try:
        return servers.of(spec, partial(_phrased, say))
    except TwinlensError as error:
        end_run(create_run(folder, spec), "failed", str(error))
        raise


def _phrased(say: Say, phrase: str) -> None:
    say(phrase, 0.0, 0)


def unfinished_study(study: Study, out: Path) -> Path | None:
    """The newest study folder under `out` that asks for the same and lacks runs; None when there is none."""
    wanted = {run.fingerprint() for run in study.runs()}
    for record in sorted(out.glob("*/study.json"), reverse=True):
        try:
            same = read_study(record.parent).fingerprint() == study.fingerprint()
            if same and wanted - _finished(record.parent):
                return record.parent
        except BadInput:
            continue  # a broken neighbour is no reason to stop
        if same:
            return None  # the newest of the same is complete: asking again means measuring again
    return None


def _finished(folder: Path) -> set[str]:
    found = set()
    for record in folder.glob("*/run.json"):
        try:
            run = read_run(record.parent)
        except BadInput:
            continue
        if run.is_finished:
            found.add(run.spec.fingerprint())
    return found


def measure_one(folder: Path, spec: RunSpec, say: Say, server: Running | None = None) -> Path:
    """Measure one run into a new folder under `folder`, whose path is returned.

    `server`: the launched server that it shares with others (measure/launched.py); None: an executor that needs one
    starts its own. Raises what `run_here` raises.
    """
    run = create_run(folder, spec)
    if server is not None:
        update_run(run, server=server.to_json())
    if not spec.protocol.isolate:
        run_here(run, spec, say, server)
        return run
    with (run / "log.txt").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "twinlens.measure.worker", str(run)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            last = _listen(worker, say)
            code = worker.wait()
        except KeyboardInterrupt:
            _stop(worker)
            _say_interrupted(run)
            raise Interrupted(_gone_on(folder)) from None
    _raise_for(code, last, run)
    return run


def _gone_on(folder: Path) -> str:
    return f"interrupted; what was measured is kept in {folder}; run it again to go on"


def _listen(worker: subprocess.Popen[str], say: Callable[[str, float, int], None]) -> dict[str, Any]:
    last: dict[str, Any] = {}
    assert worker.stdout is not None
    for line in worker.stdout:
        last = json.loads(line)
        if "say" in last:
            say(last["say"], last["share"], last["rows"])
    return last


def _stop(worker: subprocess.Popen[str]) -> None:
    """Let it write down that it was interrupted; a terminal has already told it, another caller may not have."""
    worker.send_signal(signal.SIGTERM)
    try:
        worker.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


def _say_interrupted(run: Path) -> None:
    if read_run(run).state == "running":
        end_run(run, "interrupted", "interrupted by the user")


def _raise_for(code: int, last: dict[str, Any], run: Path) -> None:
    if code == 0:
        return
    if "error" in last:
        kinds: dict[int, type[TwinlensError]] = {2: BadInput, 130: Interrupted}
        raise kinds.get(last["exit"], ExecutorFailed)(last["error"], code=last["code"])
    how = f"was killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
    sentence = f"the worker {how}; its rows so far and its log are in {run}"
    if read_run(run).state == "running":  # it had no time to say so itself
        end_run(run, "failed", sentence)
    raise ExecutorFailed(sentence, code="TL302")
