"""A client on a node of a Ray cluster: the actor that holds it there, and the handle that holds the actor here."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from twinlens.executors.ray_connection import first_line
from twinlens.measurement.client.clock import Offset, bound_over, measured_offset
from twinlens.measurement.client.messages import Instruction, Job, Lost, Play, Report
from twinlens.measurement.client.process import ClientProcess
from twinlens.version import __version__

_TAKE_S = 0.25
_SILENT_S = 20.0


class Host:
    """The actor: it holds one client process on its node and what that said, until that is acknowledged."""

    def __init__(self, name: str, job: Job) -> None:
        self._client = ClientProcess(name, job)
        self._client.start()
        self._kept: list[tuple[int, Report]] = []
        self._number = 0

    def about(self) -> tuple[str, int]:
        """The version of Twinlens here, and the client's process."""
        return __version__, self._client.pid

    def now_ns(self) -> int:
        """The monotonic clock of this node, which the client reads too."""
        return time.monotonic_ns()

    def say(self, order: Instruction) -> None:
        self._client.say(order)

    def take(self, acknowledged: int) -> tuple[list[tuple[int, Report]], str | None]:
        """All reports after number `acknowledged`, numbered, and how the client was lost, if it was."""
        self._kept = [kept for kept in self._kept if kept[0] > acknowledged]
        lost = None
        try:
            for report in self._client.receive():
                self._number += 1
                self._kept.append((self._number, report))
        except Lost as gone:
            lost = str(gone)
        return self._kept, lost

    def stop(self) -> None:
        self._client.stop()


class RayClient:
    """The handle of a client on another node."""

    def __init__(self, ray: Any, actor: Any, name: str) -> None:
        self.name = name
        self._ray, self.actor = ray, actor
        self._asked: Any = None
        self._asked_s = 0.0
        self._acknowledged = 0
        self._gone: str | None = None
        self._first: Offset | None = None
        self.clock: Offset | None = None

    def align(self) -> None:
        """Measure its clock against ours; again after the run, so that what it drifted meanwhile is in the bound."""
        try:
            offset = measured_offset(lambda: int(self._ray.get(self.actor.now_ns.remote(), timeout=_SILENT_S)))
        except self._ray.exceptions.RayError:
            return  # it is gone: what is known of its clock stays what it was
        self._first = self._first or offset
        self.clock = Offset(self._first.offset_ns, bound_over(self._first, offset))

    def say(self, order: Instruction) -> None:
        self.actor.say.remote(order)

    def begin_at(self, origin_ns: int) -> None:
        """Let it play; time zero is this moment of our monotonic clock."""
        if self.clock is not None:  # else it was gone before its clock could be asked, and `receive` says so
            self.say(Play(origin_ns + self.clock.offset_ns))

    def receive(self) -> list[Report]:
        """Reports that have come meanwhile. Raises Lost once the client is gone and all its reports were received."""
        if self._gone is not None:
            raise Lost(self._gone)
        if self._asked is None:
            if time.monotonic() - self._asked_s < _TAKE_S:
                return []
            self._asked, self._asked_s = self.actor.take.remote(self._acknowledged), time.monotonic()
        answered, _ = self._ray.wait([self._asked], timeout=0)
        if not answered:
            if time.monotonic() - self._asked_s > _SILENT_S:
                self._gone = f"has not been heard of for {_SILENT_S:g} s"
            return []
        try:
            kept, self._gone = self._ray.get(self._asked)
        except self._ray.exceptions.RayError as error:
            raise Lost(f"died with its actor ({first_line(error)})") from None
        self._asked = None
        if kept:
            self._acknowledged = kept[-1][0]
        return [report for _, report in kept]

    def stop(self) -> None:
        """Make the client give up what it plays; its last rows and its end still come."""
        self.actor.stop.remote()

    def close(self) -> None:
        """End it surely: its process dies with the actor."""
        with contextlib.suppress(Exception):
            self._ray.kill(self.actor)
