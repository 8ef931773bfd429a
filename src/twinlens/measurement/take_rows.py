"""Rows of one run: the loop that its workload needs, with samples, scraping and compliance tests beside it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from twinlens.executors.protocol import (
    Exchanger,
    HasProcesses,
    NetworkClient,
    Server,
    Trainer,
    network_client_of,
)
from twinlens.executors.registry import place_of
from twinlens.measurement.compliance.run import with_compliance_tests
from twinlens.measurement.drive.load import player
from twinlens.measurement.drive.training import TellProgress, exchange, serve, train
from twinlens.measurement.machine.energy import open_meters
from twinlens.measurement.machine.telemetry import Sampler
from twinlens.measurement.server.dcgm import Dcgm
from twinlens.measurement.server.here import Here, server_here
from twinlens.measurement.server.scrape import scraping
from twinlens.measurement.server.shared import injected_fault
from twinlens.measurement.turns.closed_loop_slices import load_in_turns
from twinlens.measurement.turns.lockstep_slices import batches, steps, take_in_turns
from twinlens.measurement.turns.worker_turn import TurnQueue
from twinlens.record.arrow import RowWriter
from twinlens.record.executor.facts import Facts
from twinlens.record.sections import Running
from twinlens.record.store import open_telemetry, update_run
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.nvml import open_gpus
from twinlens.system.processes import is_alive

SayProgress = Callable[[str, float, int], None]
"""Told what is going on, how far it is (0-1) and how many rows there are."""


def _note_extended(rows: RowWriter, times: int) -> None:
    """A run that went on until it had settled says so: when to stop was chosen by what was seen."""
    if times:
        update_run(rows.folder, extended=times)


def take_rows(
    opened: Trainer | Server | Exchanger,
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

    pids = opened.first_pids if isinstance(opened, HasProcesses) else ()
    sampling = sampling_of(spec, rows.folder, facts, running, pids)
    if spec.lens == "training":
        assert isinstance(opened, Trainer)
        if turns is not None:
            take_in_turns(steps(opened), rows, turns, sampling)
            return
        with sampling:
            _note_extended(rows, train(opened, spec, rows, progress, facts.entropy_rate_nats))
        return
    if spec.lens == "collective":
        assert isinstance(opened, Exchanger)
        with sampling:
            _note_extended(rows, exchange(opened, spec, rows, progress))
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
def sampling_of(
    spec: RunSpec, folder: Path, facts: Facts, running: Running | None, pids: Sequence[int] = ()
) -> Iterator[Sampler | None]:
    """Samples of the machine into the run folder, from entering on. `pids`: the first processes of a trainer that
    has some of its own. Raises BadInput (TL207) for a page of dcgm-exporter that cannot be read."""
    if place_of(spec) == "recorded":  # what this machine does meanwhile is nothing of the recorded one's
        yield None
        return
    # Only the boards this run uses: others draw power too, and it is not this run's.
    used = facts.executor.value("accelerator.uuid")
    gpus = open_gpus(used)[0] if used else ()
    server: Here | None = Here(running.pid) if running is not None else None
    if server is None and not pids:
        server = server_here(spec.executor.options.get("url"))
    theirs = pids if server is None else () if server.pid is None else (server.pid,)
    dcgm = _dcgm(spec, used)
    is_told = server is None or server.pid is not None  # else its work cannot be told from that of others
    with (
        contextlib.closing(dcgm) if dcgm else contextlib.nullcontext(),
        open_telemetry(folder) as readings,
        Sampler(
            readings.add_all,
            gpus,
            spec.protocol.telemetry_s,
            meters=open_meters(gpus, boards=used or ()),
            server_pids=theirs,
            knows_others=is_told,
            more=dcgm.read if dcgm else None,
        ) as sampler,
    ):
        yield sampler


def _dcgm(spec: RunSpec, uuids: Sequence[str] | None) -> Dcgm | None:
    """The page that the user named, which has to answer before anything is measured. Raises BadInput (TL207)."""
    url = spec.executor.options.get("dcgm_url")
    if not url:
        return None
    page = Dcgm(str(url), uuids or None)
    page.refuse_no_page()
    return page
