"""One run in this process: open the executor, write down who it is, take rows, say how it ended."""

from __future__ import annotations

import contextlib
import errno
import time
from dataclasses import replace
from pathlib import Path

from twinlens.errors import ExecutorFailed, Interrupted, TwinlensError
from twinlens.executors.protocol import (
    Exchanger,
    HasDeviceMemory,
    HasProcesses,
    KeepsCheckpoints,
    MaySimulate,
    RemeasuresCeilings,
    RepeatsAnswers,
    RunsCommand,
    SavesWeights,
    Server,
    Trainer,
)
from twinlens.executors.registry import opener, place_of
from twinlens.measurement.facts.completed import completed, marked, seen_afterwards
from twinlens.measurement.preflight.power import power_limited
from twinlens.measurement.preflight.refuse import refuse_what_cannot_run
from twinlens.measurement.refused import is_refusal
from twinlens.measurement.server.shared import joined
from twinlens.measurement.server_ceilings import server_ceilings
from twinlens.measurement.take_rows import SayProgress, is_under_load, take_rows
from twinlens.measurement.turns.worker_turn import TurnQueue
from twinlens.record.arrow import RowWriter
from twinlens.record.codec import encode
from twinlens.record.executor.facts import Facts
from twinlens.record.sections import Running
from twinlens.record.store import end_run, open_rows, update_run
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.system.home_folder import as_tilde
from twinlens.system.interrupts import ignore_interrupts


def run_here(
    folder: Path,
    spec: RunSpec,
    say: SayProgress,
    server: Running | None = None,
    turns: TurnQueue | None = None,
    *,
    opened: Trainer | None = None,
) -> None:
    """Measure one run into `folder` (made by `create_run`), on `server` where it shares a launched one, and in
    `turns` where it takes turns with other runs. `opened`: a trainer in place of the one that the spec names.

    Raises BadInput, ExecutorFailed or Interrupted after writing it into the folder; rows taken so far stay there.
    """
    try:
        rows = _measure(folder, spec, say, server, turns, opened)
    except KeyboardInterrupt:
        end_run(folder, "interrupted", "interrupted by the user")
        raise Interrupted(f"interrupted; what was measured is kept in {folder}") from None
    except TwinlensError as error:
        _end_failed(folder, str(error))
        if is_refusal(error):
            update_run(folder, refused=True)
        raise
    except MemoryError as error:
        _end_failed(folder, "out of memory")
        raise ExecutorFailed(f"out of memory in {folder}; take a smaller model or batch", code="TL309") from error
    except Exception as error:
        if is_out_of_memory(error):
            sentence = "out of memory on the device; take a smaller model, batch, microbatch or precision"
            _end_failed(folder, sentence)
            raise ExecutorFailed(f"{sentence} ({folder})", code="TL309") from error
        cause = f"{type(error).__name__}: {error}"
        _end_failed(folder, cause)
        raise ExecutorFailed(
            f"the executor failed ({cause.splitlines()[0][:300]}); see {folder / 'log.txt'}",
            code="TL301" if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT) else "TL302",
        ) from error
    with ignore_interrupts():
        end_run(folder, "finished", rows=rows)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch says that an allocation failed: a GPU's has a type of its own, a CPU's has not."""
    named = any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__)
    return named or "can't allocate memory" in str(error) or "CUBLAS_STATUS_ALLOC_FAILED" in str(error)


def _measure(
    folder: Path,
    spec: RunSpec,
    say: SayProgress,
    handed: Running | None,
    turns: TurnQueue | None,
    own: Trainer | None,
) -> int:
    refuse_what_cannot_run(spec)
    update_run(folder, place=place_of(spec))
    opened = own or opener(spec)
    with power_limited(spec), joined(opened, folder, spec, lambda phrase: say(phrase, 0.0, 0), handed) as running:
        return _measure_with(opened, folder, spec, say, running, turns)


def _measure_with(
    opened: Trainer | Server | Exchanger,
    folder: Path,
    spec: RunSpec,
    say: SayProgress,
    running: Running | None,
    turns: TurnQueue | None,
) -> int:
    rows: RowWriter | None = None
    facts: Facts | None = None
    if isinstance(opened, RunsCommand):
        opened.log_to(folder / "command.log")
    begun_s = time.monotonic()
    try:
        opened_facts = opened.open(spec, lambda phrase: say(phrase, 0.0, 0))
        pids = opened.first_pids if isinstance(opened, HasProcesses) else ()
        facts = completed(marked(opened_facts, spec, opened), spec, running, pids)
        update_run(folder, facts=as_tilde(encode(facts)))
        if isinstance(opened, MaySimulate) and opened.simulated is not None:
            update_run(folder, simulated=encode(opened.simulated))
        rows = open_rows(folder, spec)
        if isinstance(opened, KeepsCheckpoints) and opened.examined_s is not None:
            update_run(folder, startup_s=time.monotonic() - begun_s - opened.examined_s)
        take_rows(opened, spec, rows, say, facts, running, turns)
        if spec.protocol.guards and isinstance(opened, RepeatsAnswers) and (answers := opened.greedy()) is not None:
            update_run(folder, greedy=encode(answers))
        if isinstance(opened, HasDeviceMemory) and (peak := opened.device_memory()):
            update_run(folder, device_memory=peak)
        if isinstance(opened, KeepsCheckpoints) and isinstance(spec.workload, TrainingWorkload):
            if spec.workload.checkpoint is not None:
                say("reading the state back", 1.0, rows.count)
            if (saved := opened.checkpoints()) is not None:
                update_run(folder, checkpoints=encode(saved))
        # Points that take turns are still at work: a ceiling beside them would be theirs, and they would be slowed.
        if turns is None and isinstance(opened, RemeasuresCeilings) and facts.ceilings:
            say("measuring ceilings again", 1.0, rows.count)
            after = {name: encode(estimate) for name, estimate in opened.ceilings_again().items()}
            update_run(folder, ceilings_after=after)
        if turns is None and is_under_load(spec) and (beside := server_ceilings(spec, facts, running)):
            update_run(folder, ceilings_after={name: encode(estimate) for name, estimate in beside.items()})
        if settled := seen_afterwards(folder, facts):
            update_run(folder, facts=as_tilde(encode(replace(facts, executor=facts.executor.merged(settled)))))
        if isinstance(spec.workload, TrainingWorkload) and spec.workload.save:
            say("saving the weights", 1.0, rows.count)
            assert isinstance(opened, SavesWeights), "its capabilities say that it saves weights"
            opened.save(folder / "weights")
    finally:
        if facts is not None and isinstance(opened, RunsCommand) and (found := opened.findings()) is not None:
            update_run(folder, facts=as_tilde(encode(replace(facts, findings=found))))
        if rows is not None:
            rows.close()
        opened.close()
    return rows.count


def _end_failed(folder: Path, sentence: str) -> None:
    with contextlib.suppress(OSError):  # a full disk: run.json still says "running", the run is visibly unfinished
        end_run(folder, "failed", sentence)
