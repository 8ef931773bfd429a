"""A study: its runs one after another, each in a fresh process, interleaved, resumable, nothing lost."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed, Interrupted, TwinlensError
from twinlens.measurement.event import Watch, phrases, telling, telling_together
from twinlens.measurement.preflight.refuse import preflight
from twinlens.measurement.refused import is_refusal, record_refused, was_refused, without_refused
from twinlens.measurement.server.shared import SharedServer, shared_server, together
from twinlens.measurement.session import run_here
from twinlens.measurement.study_folder import held_folder
from twinlens.measurement.summary_file import store_summary
from twinlens.measurement.take_rows import SayProgress
from twinlens.measurement.turns.conductor import measure_paired
from twinlens.measurement.worker_process import gone_on, raise_for, say_interrupted, started, stop
from twinlens.record.codec import encode
from twinlens.record.run import Run, Runs
from twinlens.record.sections import Running
from twinlens.record.store import (
    create_run,
    end_run,
    end_study,
    find_runs,
    is_ended,
    read_run,
    read_study,
    update_run,
)
from twinlens.spec.study import RunSpec, Study
from twinlens.stats.summary.group import Summary
from twinlens.system.interrupts import ignore_interrupts


@dataclass(frozen=True, slots=True)
class Outcome:
    """A study folder and its runs. `failures`: what kept runs from finishing."""

    folder: Path
    runs: Runs
    resumed: int
    failures: tuple[ExecutorFailed, ...]

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"<Outcome {self.folder}{failed}>\n{self.runs!r}"


def measure_study(
    study: Study, out: Path, watch: Watch = lambda event: None, *, fresh: bool = False, shown: bool = True
) -> Outcome:
    """Measure all runs of a study that are not there yet.

    An unfinished study folder of the same spec under `out` is resumed, unless `fresh`. A run that fails, or that
    cannot be had here, is recorded and the others go on. `shown` False: the caller says `end_study` when it
    has shown what came of it; until then the same study is resumed. Raises BadInput before or at the first run
    that cannot be run, or where no precision can be had, and Interrupted.
    """
    planned = together(study.runs())
    lacking = preflight(study)
    with held_folder(study, out, unfinished_study, fresh=fresh) as folder:
        outcome = _measured(study, folder, record_refused(folder, planned, lacking), watch)
        if shown:
            end_study(folder)
    return outcome


def _measured(study: Study, folder: Path, planned: list[RunSpec], watch: Watch) -> Outcome:
    known = finished_attempts(folder)
    resumed, failures = len(known), list[ExecutorFailed]()
    if study.protocol.pairing == "slices":
        failures += measure_repeats(folder, planned, known, watch)
        return _outcome(folder, resumed, failures)
    with shared_server(folder) as servers:
        for number, spec in enumerate(planned, start=1):
            say = telling(watch, number, len(planned), spec)
            try:
                _measure_repeat(folder, spec, say, servers, known.get(spec.fingerprint(), []))
            except ExecutorFailed as error:
                failures.append(
                    ExecutorFailed(f"{spec.point.precision}, repeat {spec.repeat}: {error}", code=error.code)
                )
            except BadInput as error:
                if not is_refusal(error):
                    raise
            except KeyboardInterrupt:  # while a server was starting: no run has begun
                raise Interrupted(gone_on(folder)) from None
    return _outcome(folder, resumed, failures)


def _outcome(folder: Path, resumed: int, failures: list[ExecutorFailed]) -> Outcome:
    """The outcome so far. Raises BadInput where every run was refused."""
    runs = Runs.of(find_runs(folder))
    if runs and all(was_refused(run) for run in runs):
        raise BadInput(runs[0].error or "no precision can be had here", code="TL203")
    return Outcome(folder, runs, resumed, tuple(failures))


def _measure_repeat(folder: Path, spec: RunSpec, say: SayProgress, servers: SharedServer, attempts: list[Run]) -> None:
    """One repeat: measured where it is not there yet, and again while others disturbed it and a retake is left."""
    while is_owed(spec, attempts):
        if attempts:
            say("disturbed by other programs: taking it again", 0.0, 0)
        server = _server_for(servers, folder, spec, say)
        run = measure_one(folder, spec, say, server, attempt=len(attempts) + 1)
        attempts = [*attempts, read_run(run)]


def measure_repeats(
    folder: Path, planned: Sequence[RunSpec], finished: dict[str, list[Run]], watch: Watch
) -> list[ExecutorFailed]:
    """Measure the repeats of a paired study that are not there whole, and say which failed."""
    failures = []
    for repeat in sorted({spec.repeat for spec in planned}):
        specs = [spec for spec in planned if spec.repeat == repeat]
        if all(spec.fingerprint() in finished for spec in specs):
            continue
        _set_aside([run for spec in specs for run in finished.get(spec.fingerprint(), ()) if run.is_finished])
        while specs := without_refused(folder, specs):
            try:
                measure_paired(folder, specs, telling_together(watch, planned, specs))
            except ExecutorFailed as error:
                failures.append(error)
            except BadInput as error:
                if not is_refusal(error) or len(without_refused(folder, specs)) == len(specs):
                    raise
                continue  # the others of this repeat, without it
            break
    return failures


def _set_aside(runs: Sequence[Run]) -> None:
    """Runs of a repeat whose study was killed before all of it had ended: they do not count beside its next try."""
    for run in runs:
        end_run(run.folder, "interrupted", "a run it took turns with did not end; the repeat is measured again")


def _server_for(servers: SharedServer, folder: Path, spec: RunSpec, say: SayProgress) -> Running | None:
    """The server a run shares; a run whose server does not come up is on disk as failed."""
    try:
        return servers.of(spec, phrases(say))
    except TwinlensError as error:
        end_run(create_run(folder, spec), "failed", str(error))
        raise


def unfinished_study(study: Study, out: Path) -> Path | None:
    """The newest study folder under `out` that asks for the same and lacks runs or was not shown; None without one."""
    wanted = {run.fingerprint() for run in study.runs()}
    for record in sorted(out.glob("*/study.json"), reverse=True):
        try:
            same = read_study(record.parent).fingerprint() == study.fingerprint()
            if same and (wanted - finished_attempts(record.parent).keys() or not is_ended(record.parent)):
                return record.parent
        except BadInput:
            continue  # a broken neighbour is no reason to stop
        if same:
            return None  # the newest of the same is complete: asking again means measuring again
    return None


def measure_one(folder: Path, spec: RunSpec, say: SayProgress, server: Running | None = None, attempt: int = 1) -> Path:
    """Measure one run into a new folder under `folder`, whose path is returned.

    `server`: the launched server that it shares with others (measurement/server/shared.py); None: an executor that
    needs one starts its own. Raises what `run_here` raises.
    """
    run = create_run(folder, spec, attempt)
    if server is not None:
        update_run(run, server=encode(server))
    if not spec.protocol.isolate:
        run_here(run, spec, say, server)
        return run
    worker = started(run)
    try:
        last = _listen(worker, say)
        code = worker.wait()
    except KeyboardInterrupt:
        with ignore_interrupts():
            stop(worker)
            say_interrupted(run)
        raise Interrupted(gone_on(folder)) from None
    raise_for(code, last, run)
    return run


def _listen(worker: subprocess.Popen[str], say: Callable[[str, float, int], None]) -> dict[str, Any]:
    last: dict[str, Any] = {}
    assert worker.stdout is not None
    for line in worker.stdout:
        last = json.loads(line)
        if "say" in last:
            say(last["say"], last["share"], last["rows"])
    return last


def finished_attempts(folder: Path) -> dict[str, list[Run]]:
    """Finished runs of a study folder by fingerprint, first attempts first; what cannot be read is left out.

    Refused ones too: what this device lacks is done with.
    """
    attempts: dict[str, list[Run]] = {}
    for record in sorted(folder.glob("*/run.json")):
        try:
            run = read_run(record.parent)
        except BadInput:
            continue
        if run.is_finished or was_refused(run):
            attempts.setdefault(run.spec.fingerprint(), []).append(run)
    return {key: sorted(runs, key=attempt_of) for key, runs in attempts.items()}


def attempt_of(run: Run) -> int:
    """Which attempt at its repeat a run is, from 1."""
    return run.sections.attempt


def is_owed(spec: RunSpec, attempts: Sequence[Run]) -> bool:
    """Whether a repeat is to be measured (again): not yet, or its last attempt was disturbed and another is allowed.

    One whose rows are damaged is as good as none.
    """
    if not attempts:
        return True
    if spec.protocol.pairing == "slices":  # what disturbed it met the others of its repeat as well: their ratio stands
        return False
    try:
        return len(attempts) <= spec.protocol.retakes and disturbed_by_others(store_summary(attempts[-1]))
    except BadInput:
        return True


def disturbed_by_others(summary: Summary) -> bool:
    """Whether a run was not ranked and the work of others went with its slow moments, in passing.

    The choice rests on what the others did and never on the figure itself. A neighbour that was there throughout will
    be there again: no reason for another attempt.
    """
    causes = (cause.numbers for cause in summary.findings if cause.code == "cause")
    return not summary.ranked and any(cause.get("external") and cause.get("how") == "in time" for cause in causes)
