"""The second half of the inference lens: a schedule of requests, played in real time against a server.

By this process, by several on this machine, or by clients on other machines: `executor.options.clients` and `on`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from twinlens.errors import BadInput
from twinlens.executors.protocol import NetworkClient, Server, network_client_of
from twinlens.measurement.client.calibrate import (
    CALIBRATION_S,
    calibrate,
    needed_clients,
    refuse_overload,
    typical_answer_tokens,
)
from twinlens.measurement.client.coordinate import Coordinator
from twinlens.measurement.client.messages import Job
from twinlens.measurement.client.pool import ClientHandle, await_ready, calibrated, jobs_for
from twinlens.measurement.client.process import ClientProcess
from twinlens.measurement.drive.hopeless import Hope, while_there_is_hope
from twinlens.measurement.drive.training import TellProgress
from twinlens.network.target import ClientPool, client_pool_of
from twinlens.record.arrow import RowWriter, read_rows
from twinlens.record.client import Calibration
from twinlens.record.codec import encode
from twinlens.record.request import REQUEST_SCHEMA, Request, Requests
from twinlens.record.store import update_run
from twinlens.schedule.build import Load, planned_load
from twinlens.schedule.split import refuse_unshared
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.serving.looks import looks_s, undecided
from twinlens.stats.summary.serving import look
from twinlens.system.interrupts import ignore_interrupts, interrupt_once

_SEEN = ("outcome", "error", "end_ns", "loss")
PlaysLoad = Callable[[RowWriter, TellProgress], None]
"""Plays the whole schedule of a run once."""


@contextlib.contextmanager
def player(
    server: Server, spec: RunSpec, folder: Path, say: Callable[[str], None], is_up: Callable[[], bool] = lambda: True
) -> Iterator[PlaysLoad]:
    """Everything made ready to play a run's load: the plan written beside the rows, the clients up and calibrated.

    `is_up`: whether the server, where it was launched, lives. Raises BadInput for a load that cannot be split over the
    clients asked for; the player raises ExecutorFailed (TL306) for a run that is given up.
    """
    hope = Hope(spec.protocol.hopeless_s, is_up)
    load = planned_load(spec)
    _keep_plan(load, folder)
    if load.unusable:
        update_run(folder, unusable_trace_rows=load.unusable)
    client = network_client_of(server)
    if client is None:  # only a client over a network has lateness of its own
        yield partial(_alone, server, load, spec, hope)
        return
    pool = client_pool_of(spec.executor.options)
    if pool.on is not None:
        from twinlens.measurement.client.ray_cluster import dispatched  # Ray: heavy, and an extra

        with dispatched(pool, spec, load.plan, client.endpoint(), say) as (jobs, clients):
            yield _pool_player(client, spec, folder, jobs, clients, say, {}, hope)
        return
    count, why, calibration = _count(pool, spec, load, say)
    if count == 1 and calibration is not None:
        refuse_overload(spec, load.plan, calibration)
        update_run(folder, calibration=asdict(calibration))
        with looks_at(spec, say) as looks:
            if looks.most_s > spec.protocol.duration_s:
                load = planned_load(spec, looks.most_s)
                _keep_plan(load, folder)
            about = {"clients_why": why} if why else {}
            yield partial(_recorded, server, client, load, spec, folder, about, hope, looks)
        return
    with interrupt_once(), _processes(jobs_for(spec, load.plan, client.endpoint(), count)) as (jobs, clients):
        yield _pool_player(client, spec, folder, jobs, clients, say, {"clients_why": why}, hope)


@contextlib.contextmanager
def _processes(jobs: list[Job]) -> Iterator[tuple[list[Job], list[ClientHandle]]]:
    """Processes on this machine for these jobs, just started."""
    held: list[ClientHandle] = []
    try:
        for job in jobs:
            process = ClientProcess(f"client {job.share.index}", job)
            held.append(process)  # before it is started: it will be closed whenever an interrupt comes
            process.start()
        yield jobs, held
    finally:
        with ignore_interrupts():
            for client in held:
                client.close()


def _count(
    pool: ClientPool, spec: RunSpec, load: Load, say: Callable[[str], None]
) -> tuple[int, str | None, Calibration | None]:
    """How many clients on this machine, why, and what one can do; None where several were asked for."""
    if isinstance(pool.clients, int) and pool.clients > 1:
        return pool.clients, None, None
    say(f"calibrating the client, about {CALIBRATION_S:g} s")
    calibration = calibrate(spec.point.rate_per_s, typical_answer_tokens(spec, load.plan))
    if pool.clients != "auto":
        return 1, None, calibration
    count, why = needed_clients(spec, load.plan, calibration)
    try:
        refuse_unshared(spec, count)
    except BadInput as cannot:
        return 1, f"{why}; one, as {cannot}", calibration
    return count, why, calibration


def _pool_player(
    client: NetworkClient,
    spec: RunSpec,
    folder: Path,
    jobs: list[Job],
    clients: list[ClientHandle],
    say: Callable[[str], None],
    about: dict[str, Any],
    hope: Hope,
) -> PlaysLoad:
    say(f"starting {len(clients)} clients")
    await_ready(clients)
    say(f"calibrating {len(clients)} clients")
    tokens = typical_answer_tokens(spec, jobs[0].plan)
    together = calibrated(clients, spec.point.rate_per_s, tokens)
    update_run(folder, calibration=asdict(together))
    refuse_overload(spec, jobs[0].plan, together)

    def play(rows: RowWriter, progress: TellProgress) -> None:
        def told(now_ns: int) -> None:
            progress(min(1.0, max(0.0, now_ns / 1e9 / spec.protocol.duration_s)), rows.count)
            hope.check()

        def take(table: pa.Table) -> None:
            rows.add_table(table)
            for row in zip(*(table.column(name).to_pylist() for name in _SEEN), strict=True):
                hope.see(*row)

        together = Coordinator(jobs, clients, take, told)
        try:
            together.play(client.begin_at)
        finally:
            update_run(folder, client=together.record() | about)

    return play


def _recorded(
    server: Server,
    client: NetworkClient,
    load: Load,
    spec: RunSpec,
    folder: Path,
    about: dict[str, Any],
    hope: Hope,
    looks: Looks,
    rows: RowWriter,
    progress: TellProgress,
) -> None:
    try:
        _alone(server, load, spec, hope, rows, progress, looks)
    finally:
        update_run(folder, client=encode(client.client()) | about)


def _keep_plan(load: Load, folder: Path) -> None:
    if load.plan is not None:
        with pa.ipc.new_file(str(folder / "schedule.arrow"), load.plan.to_table().schema) as file:
            file.write_table(load.plan.to_table())


def _alone(
    server: Server,
    load: Load,
    spec: RunSpec,
    hope: Hope,
    rows: RowWriter,
    progress: TellProgress,
    looks: Looks | None = None,
) -> None:
    seconds = spec.protocol.duration_s if looks is None else looks.most_s
    schedule = load.schedule if looks is None else while_there_is_hope(load.schedule, looks)

    def take(request: Request) -> None:
        rows.add(request)
        hope.see(request.outcome, request.error, request.end_ns, request.loss)
        progress(min(1.0, request.end_ns / 1e9 / seconds), rows.count)
        if looks is not None:
            looks.see(request.end_ns, rows)

    server.play(while_there_is_hope(schedule, hope), take)
    hope.check()


# Look at a run under load while it goes on, and end it when its answer is decided.


class Looks:
    """Told of each row as it ends; `lost` is then None, or that the run is decided and no more is to be asked.

    A look reads the rows back in a thread of its own, while requests go on: none of them waits for it. `say` is told
    what is undecided.
    """

    def __init__(self, spec: RunSpec, say: Callable[[str], None]) -> None:
        self._spec, self._say = spec, say
        self._times_s = looks_s(spec.protocol)
        self._next = 0
        self._found: Future[str] | None = None
        self._thread = ThreadPoolExecutor(1) if len(self._times_s) > 1 else None
        self.lost: str | None = None

    @property
    def most_s(self) -> float:
        return self._times_s[-1]

    def see(self, end_ns: int, rows: RowWriter) -> None:
        """A request has ended, `end_ns` after the start of the run, and is among `rows`."""
        if self._thread is None or self.lost:
            return
        if self._found is not None and self._found.done():
            self._hear(self._found.result())
        elif self._found is None and self._next < len(self._times_s) - 1 and end_ns >= 1e9 * self._times_s[self._next]:
            rows.flush()
            self._found = self._thread.submit(_undecided, self._spec, rows)

    def _hear(self, missing: str) -> None:
        self._found = None
        if not missing:
            self.lost = "decided"
            return
        self._say(f"after {self._times_s[self._next]:g} s undecided: {missing}; {self.most_s:g} s at most")
        self._next += 1  # the last look is that of the summary

    def close(self) -> None:
        """End the thread; a look that is not over is waited for."""
        if self._thread is not None:
            self._thread.shutdown()


@contextlib.contextmanager
def looks_at(spec: RunSpec, say: Callable[[str], None]) -> Iterator[Looks]:
    """Looks at a run; a look that is not over is waited for."""
    looks = Looks(spec, say)
    try:
        yield looks
    finally:
        looks.close()


def _undecided(spec: RunSpec, rows: RowWriter) -> str:
    requests = Requests.from_table(read_rows(rows.folder / "requests.arrows", REQUEST_SCHEMA))
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    window, metrics = look(requests, spec)
    return undecided(metrics, window, workload.slo, spec.protocol)
