"""One client in a process of its own on this machine: what it does, and the handle by which a run holds it."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from multiprocessing.connection import Connection
from typing import Any

from twinlens.errors import TwinlensError
from twinlens.measurement.client.calibrate import calibrate
from twinlens.measurement.client.messages import (
    Calibrate,
    Calibrated,
    Failed,
    Instruction,
    Job,
    Lost,
    Play,
    PlayEnded,
    Ready,
    Report,
    Some,
    packed,
)
from twinlens.network.client import Client
from twinlens.network.limits import refuse_too_many
from twinlens.record.request import Request
from twinlens.schedule.split import shared_schedule
from twinlens.system import spawned
from twinlens.system.reading_process import keep_pandas_out

_SHIP_S = 0.2
# Rows are reported a little after their answer's last byte was there; what ended less long ago may still come.
_MARGIN_NS = 50_000_000
_GRACE_S = 5.0
_SPAWN = multiprocessing.get_context("spawn")


class ClientProcess:
    """`start` it, and `receive` says when it is ready. An interrupt may come at any moment: hold it before it is
    started, so that whatever has begun is closed."""

    def __init__(self, name: str, job: Job) -> None:
        self.name = name
        self._pipe, theirs = _SPAWN.Pipe()
        self._process: Any = _SPAWN.Process(target=_work, args=(theirs, job), name=name)
        self._theirs = theirs

    def start(self) -> None:
        spawned.start(self._process)
        self._theirs.close()

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    @property
    def clock(self) -> None:
        """None is needed: the client reads the same clock as its run."""

    def align(self) -> None:
        """There is nothing to align."""

    def say(self, order: Instruction) -> None:
        """Give it an order. One that is gone is noticed by `receive`."""
        with contextlib.suppress(OSError):
            self._pipe.send(order)

    def begin_at(self, origin_ns: int) -> None:
        """Let it play; time zero is this moment of the monotonic clock."""
        self.say(Play(origin_ns))

    def receive(self) -> list[Report]:
        """Reports that have come meanwhile. Raises Lost once the client is gone and all its reports were received."""
        reports: list[Report] = []
        try:
            while self._pipe.poll():
                reports.append(self._pipe.recv())
        except (EOFError, OSError):
            if not reports:
                raise Lost(self._how()) from None
        return reports

    def stop(self) -> None:
        """Make the client give up what it plays: its last rows and its end still come."""
        self._process.terminate()

    def close(self) -> None:
        """End it surely."""
        self._pipe.close()
        self._theirs.close()
        if self._process.pid is None:
            return
        if self._process.is_alive():
            self._process.kill()
        self._process.join(_GRACE_S)

    def _how(self) -> str:
        self._process.join(_GRACE_S)
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"was killed by signal {-code} ({signal.Signals(-code).name})"
        return f"ended with code {code}"


def _work(pipe: Connection, job: Job) -> None:
    _end_with_parent()
    # Ctrl-C reaches every process of a terminal; this one gives up when its parent says so.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    client = Client()
    try:
        refuse_too_many(job.share.of(job.spec.point.concurrency or 1))
        client.connect(job.endpoint)
        keep_pandas_out()
        schedule = shared_schedule(job.spec, job.plan, job.share)
        pipe.send(Ready(os.getpid()))
        while True:
            order = pipe.recv()
            if isinstance(order, Calibrate):
                pipe.send(Calibrated(calibrate(order.rate_per_s, order.answer_tokens)))
            else:
                _play(pipe, client, schedule, order.origin_ns)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return  # nobody waits for it any more
    except TwinlensError as error:
        pipe.send(Failed(str(error), error.code, error.exit_code))
    except Exception as error:
        pipe.send(Failed(f"{type(error).__name__}: {str(error)[:300]}", "TL302", 3))
    finally:
        client.close()


def _play(pipe: Connection, client: Client, schedule: Any, origin_ns: int) -> None:
    client.begin_at(origin_ns)
    shipper = _Shipper(pipe, origin_ns)
    before_s = time.process_time()
    try:
        with contextlib.suppress(KeyboardInterrupt), shipper:
            client.play(schedule, shipper.rows.append)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        shipper.ship(last=True)
    pipe.send(PlayEnded(client.client(), time.process_time() - before_s))
    signal.signal(signal.SIGTERM, _interrupt)


class _Shipper:
    """Sends rows every fifth of a second from a thread of its own, and word that it lives when there are none."""

    def __init__(self, pipe: Connection, origin_ns: int) -> None:
        self.rows: deque[Request] = deque()
        self._pipe, self._origin_ns = pipe, origin_ns
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def ship(self, *, last: bool = False) -> None:
        now_ns = time.monotonic_ns() - self._origin_ns
        rows = [self.rows.popleft() for _ in range(len(self.rows))]
        self._pipe.send(Some(packed(rows) if rows else b"", now_ns if last else now_ns - _MARGIN_NS))

    def _loop(self) -> None:
        while not self._over.wait(_SHIP_S):
            try:
                self.ship()
            except OSError:
                os._exit(1)  # whoever wanted the rows is gone, and so is the run


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    """Ask Linux to be killed with the parent; elsewhere, and if it is gone already, the pipe tells."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
