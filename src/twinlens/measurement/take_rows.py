"""Rows of one run: the loop that its workload needs, with samples, scraping and compliance tests beside it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial

from twinlens.executors.protocol import (
    Exchanger,
    HasProcesses,
    NetworkClient,
    Server,
    Trainer,
    network_client_of,
)
from twinlens.measurement.compliance.run import with_compliance_tests
from twinlens.measurement.drive.exchanging import exchange
from twinlens.measurement.drive.load import player
from twinlens.measurement.drive.lockstep import serve
from twinlens.measurement.drive.training import TellProgress, train
from twinlens.measurement.machine.telemetry import Sampler
from twinlens.measurement.sampling import sampling_of
from twinlens.measurement.server.fault import injected_fault
from twinlens.measurement.server.scrape import scraping
from twinlens.measurement.turns.closed_loop_slices import load_in_turns
from twinlens.measurement.turns.lockstep_slices import batches, steps, take_in_turns
from twinlens.measurement.turns.worker_turn import TurnQueue
from twinlens.record.arrow import RowWriter
from twinlens.record.executor.facts import Facts
from twinlens.record.sections import Running
from twinlens.record.store import update_run
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
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
