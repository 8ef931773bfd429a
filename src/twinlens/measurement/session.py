"""One run in this process: open the executor, write down who it is, take rows, say how it ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from twinlens.errors import ExecutorFailed, Interrupted, TwinlensError
from twinlens.executors.protocol import (
    HasDeviceMemory,
    NetworkClient,
    RemeasuresCeilings,
    SavesWeights,
    Server,
    Trainer,
    network_client_of,
)
from twinlens.executors.registry import capabilities, server, trainer
from twinlens.measurement.compliance.run import with_compliance_tests
from twinlens.measurement.drive.load import player
from twinlens.measurement.drive.lockstep import serve
from twinlens.measurement.drive.training import TellProgress, train
from twinlens.measurement.facts.origin import marked
from twinlens.measurement.facts.predicted_work import coverage_of, datasheet_of, theory_of, within_datasheet
from twinlens.measurement.facts.provenance import provenance
from twinlens.measurement.facts.whole_run import seen_afterwards
from twinlens.measurement.machine.energy import energy_facts, open_meters
from twinlens.measurement.machine.host import capture_host
from twinlens.measurement.machine.nvidia import open_gpus
from twinlens.measurement.machine.software import software_facts
from twinlens.measurement.machine.telemetry import Sampler
from twinlens.measurement.preflight.refuse import refuse_what_cannot_run
from twinlens.measurement.refused import is_refusal
from twinlens.measurement.server.fault import injected_fault
from twinlens.measurement.server.here import Here, server_here
from twinlens.measurement.server.scrape import scraping
from twinlens.measurement.server.shared import joined, stack_of
from twinlens.measurement.turns.closed_loop_slices import load_in_turns
from twinlens.measurement.turns.lockstep_slices import batches, steps, take_in_turns
from twinlens.measurement.turns.worker_turn import TurnQueue
from twinlens.record.arrow import RowWriter
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord
from twinlens.record.running import Running
from twinlens.record.store import end_run, open_rows, open_telemetry, update_run
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.system.home_folder import as_tilde
from twinlens.system.interrupts import ignore_interrupts
from twinlens.system.processes import is_alive, tree

_BOARD = ("accelerator.product", "accelerator.memory_bytes", "accelerator.architecture", "accelerator.partition")
SayProgress = Callable[[str, float, int], None]
"""Told what is going on, how far it is (0-1) and how many rows there are."""


def run_here(
    folder: Path, spec: RunSpec, say: SayProgress, server: Running | None = None, turns: TurnQueue | None = None
) -> None:
    """Measure one run into `folder` (made by `create_run`), on `server` where it shares a launched one, and in
    `turns` where it takes turns with other runs.

    Raises BadInput, ExecutorFailed or Interrupted after writing it into the folder; rows taken so far stay there.
    """
    try:
        rows = _measure(folder, spec, say, server, turns)
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
        raise ExecutorFailed(f"out of memory in {folder}; take a smaller model or batch", code="TL302") from error
    except Exception as error:
        if is_out_of_memory(error):
            sentence = "out of memory on the device; take a smaller model, batch, microbatch or precision"
            _end_failed(folder, sentence)
            raise ExecutorFailed(f"{sentence} ({folder})", code="TL302") from error
        cause = f"{type(error).__name__}: {error}"
        _end_failed(folder, cause)
        raise ExecutorFailed(
            f"the executor failed ({cause.splitlines()[0][:300]}); see {folder / 'log.txt'}", code="TL302"
        ) from error
    with ignore_interrupts():
        end_run(folder, "finished", rows=rows)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch says that an allocation failed: a GPU's has a type of its own, a CPU's has not."""
    named = any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__)
    return named or "can't allocate memory" in str(error) or "CUBLAS_STATUS_ALLOC_FAILED" in str(error)


def _measure(folder: Path, spec: RunSpec, say: SayProgress, handed: Running | None, turns: TurnQueue | None) -> int:
    refuse_what_cannot_run(spec)
    update_run(folder, place=capabilities(spec.executor.kind).runs)
    opened: Trainer | Server = trainer(spec.executor.kind) if spec.lens == "training" else server(spec.executor.kind)
    with joined(opened, folder, spec, lambda phrase: say(phrase, 0.0, 0), handed) as running:
        return _measure_with(opened, folder, spec, say, running, turns)


def _measure_with(
    opened: Trainer | Server,
    folder: Path,
    spec: RunSpec,
    say: SayProgress,
    running: Running | None,
    turns: TurnQueue | None,
) -> int:
    rows: RowWriter | None = None
    try:
        opened_facts = opened.open(spec, lambda phrase: say(phrase, 0.0, 0))
        facts = _whole(marked(opened_facts, spec, opened), spec, running)
        update_run(folder, facts=as_tilde(facts.to_json()))
        rows = open_rows(folder, spec)
        _take(opened, spec, rows, say, facts, running, turns)
        if isinstance(opened, HasDeviceMemory) and (peak := opened.device_memory()):
            update_run(folder, device_memory=peak)
        # Points that take turns are still at work: a ceiling beside them would be theirs, and they would be slowed.
        if turns is None and isinstance(opened, RemeasuresCeilings) and facts.ceilings:
            say("measuring ceilings again", 1.0, rows.count)
            after = {name: estimate.to_json() for name, estimate in opened.ceilings_again().items()}
            update_run(folder, ceilings_after=after)
        if settled := seen_afterwards(folder, facts):
            update_run(folder, facts=as_tilde(replace(facts, executor=facts.executor.merged(settled)).to_json()))
        if isinstance(spec.workload, TrainingWorkload) and spec.workload.save:
            say("saving the weights", 1.0, rows.count)
            assert isinstance(opened, SavesWeights), "its capabilities say that it saves weights"
            opened.save(folder / "weights")
    finally:
        if rows is not None:
            rows.close()
        opened.close()
    return rows.count


def _note_extended(rows: RowWriter, times: int) -> None:
    """A run that went on until it had settled says so: when to stop was chosen by what was seen."""
    if times:
        update_run(rows.folder, extended=times)


def _take(
    opened: Trainer | Server,
    spec: RunSpec,
    rows: RowWriter,
    say: SayProgress,
    facts: Facts,
    running: Running | None,
    turns: TurnQueue | None,
) -> None:
    told_s = 0.0

    def progress(share: float, count: int) -> None:
        nonlocal told_s
        if (now_s := time.monotonic()) - told_s > 0.25:
            told_s = now_s
            say("measuring", share, count)

    sampling = _sampling(spec, rows.folder, facts, running)
    if spec.lens == "training":
        assert isinstance(opened, Trainer)
        if turns is not None:
            take_in_turns(steps(opened), rows, turns, sampling)
            return
        with sampling:
            _note_extended(rows, train(opened, spec, rows, progress, facts.entropy_rate_nats))
        return
    assert isinstance(opened, Server)
    if is_under_load(spec):
        _take_load(opened, spec, rows, say, progress, sampling, running, turns)
    elif turns is not None:
        take_in_turns(batches(opened, spec), rows, turns, sampling, _zero_of(network_client_of(opened)))
    else:
        with sampling:
            _note_extended(rows, serve(opened, spec, rows, progress))


def _take_load(
    server: Server,
    spec: RunSpec,
    rows: RowWriter,
    say: SayProgress,
    progress: TellProgress,
    sampling: contextlib.AbstractContextManager[Sampler | None],
    running: Running | None,
    turns: TurnQueue | None,
) -> None:
    client = network_client_of(server)

    def tell(phrase: str) -> None:
        say(phrase, 0.0, 0)

    if turns is not None:
        with load_in_turns(server, spec, rows.folder, tell, _is_up(running)) as work:
            take_in_turns(work, rows, turns, sampling, _zero_of(client))
        return
    with player(server, spec, rows.folder, tell, _is_up(running)) as play:
        asking = partial(say, "asking the guards' questions", 1.0)
        with (
            with_compliance_tests(client, spec, rows.folder, lambda: asking(rows.count)),
            scraping(client, spec, rows.folder),
            sampling,  # last, so that samples and rows count from the same moment
            injected_fault(running, spec.protocol.stall),
        ):
            play(rows, progress)


def _zero_of(client: NetworkClient | None) -> Callable[[int], None]:
    """Tells a client when time zero is; an executor in this process counts from its first work by itself."""
    return client.begin_at if client is not None else lambda origin_ns: None


def is_under_load(spec: RunSpec) -> bool:
    """Whether requests of this run come by a schedule rather than in lockstep."""
    return isinstance(spec.workload, InferenceWorkload) and spec.workload.arrival.kind != "lockstep"


def _is_up(running: Running | None) -> Callable[[], bool]:
    return (lambda: True) if running is None else partial(is_alive, running.pid, running.born_s)


@contextlib.contextmanager
def _sampling(spec: RunSpec, folder: Path, facts: Facts, running: Running | None) -> Iterator[Sampler | None]:
    """Samples of the machine into the run folder, from entering on."""
    if (
        capabilities(spec.executor.kind).runs == "recorded"
    ):  # what this machine does meanwhile is nothing of the recorded one's
        yield None
        return
    # Only the boards this run uses: others draw power too, and it is not this run's.
    used = facts.executor.value("accelerator.uuid")
    gpus = open_gpus(used)[0] if used else ()
    server = server_here(spec.executor.options.get("url")) if running is None else Here(running.pid)
    is_told = server is None or server.pid is not None  # else its work cannot be told from that of others
    with (
        open_telemetry(folder) as readings,
        Sampler(
            readings.add_all,
            gpus,
            spec.protocol.telemetry_s,
            meters=open_meters(gpus, boards=used or ()),
            server_pid=server.pid if server else None,
            knows_others=is_told,
        ) as sampler,
    ):
        yield sampler


def _whole(facts: Facts, spec: RunSpec, running: Running | None) -> Facts:
    """The executor's own facts, with the host's, the measuring layer's and what theory says of the work."""
    place = capabilities(spec.executor.kind).runs
    if place == "recorded":
        return facts  # the machine is the recorded one, not this one
    if place == "elsewhere":
        # Where that server runs is its own to say: this machine is only the client's.
        return replace(facts, executor=ExecutorRecord(provenance(spec, facts)).merged(facts.executor))
    if running is not None:
        facts = replace(facts, executor=facts.executor.merged(stack_of(running, spec)))
    # A run on a GPU that cannot be named is still none on the processor: its facts are unknown, and so is its energy.
    on_gpu, used = "accelerator.uuid" in facts.executor.facts, facts.executor.value("accelerator.uuid") or ()
    ours = tree(running.pid) if running is not None else ()
    host = capture_host("cuda" if on_gpu else "cpu", used, ours, in_use=True)
    meters = open_meters(open_gpus(used)[0] if used else (), boards=used)
    power = energy_facts(meters, "gpu" if on_gpu else "package")
    software = software_facts() if running is None else {}  # a launched server has a Python of its own
    record = ExecutorRecord(host | software | power | provenance(spec, facts)).merged(facts.executor)
    # The driver's own word on a board goes before the framework's, which stands in where there is no NVML.
    record = record.merged({key: host[key] for key in _BOARD if on_gpu and key in host and host[key].value is not None})
    sheet = datasheet_of(record.value("accelerator.product"), spec.precision)
    work = theory_of(spec) | facts.work
    ceilings = within_datasheet(facts.ceilings, sheet) | sheet
    return replace(facts, executor=record, work=work | coverage_of(work), ceilings=ceilings)


def _end_failed(folder: Path, sentence: str) -> None:
    with contextlib.suppress(OSError):  # a full disk: run.json still says "running", the run is visibly unfinished
        end_run(folder, "failed", sentence)
