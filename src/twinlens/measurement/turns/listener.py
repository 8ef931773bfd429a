"""The processor time of the process that listens at an address, in the turns of the run that asks it.

Only there: a server behind a gateway also works in the gateway's turns, and a gateway rests in the server's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import psutil

from twinlens.measurement.server.here import server_here
from twinlens.measurement.turns.lockstep_slices import Work
from twinlens.measurement.turns.worker_turn import Turn, Worked
from twinlens.record.arrow import RowWriter
from twinlens.record.column import Listener

_ELSEWHERE = "its address is not on this machine"
_UNSEEN = "the process that listens there cannot be seen"
_GONE = "the process that listened there has ended"


class ListenerMeter:
    """Adds up turns. `process` None: `found` says why nothing can be known."""

    def __init__(self, found: Listener, process: psutil.Process | None = None) -> None:
        self._found, self._process = found, process
        self._cpu_s = 0.0

    @classmethod
    def of(cls, url: Any) -> Self:
        """Of the process that listens at `url`, where it is on this machine and may be seen."""
        here = server_here(url)
        if here is None or here.pid is None:
            return cls(Listener(why=_UNSEEN if here is not None else _ELSEWHERE))
        try:
            process = psutil.Process(here.pid)
            return cls(Listener(here.pid, process.name()), process)
        except psutil.Error:
            return cls(Listener(why=_UNSEEN))

    def spent_s(self) -> float | None:
        """Processor seconds so far, of it and of its children, those that have ended included; None: not known."""
        if self._process is None:
            return None
        try:
            times = [self._process.cpu_times(), *(each.cpu_times() for each in self._process.children(recursive=True))]
        except psutil.Error:
            self._process, self._found = None, replace(self._found, why=_GONE)
            return None
        own = times[0]
        return float(sum(each.user + each.system for each in times) + own.children_user + own.children_system)

    def add(self, before_s: float | None) -> None:
        """A turn is over that began at `before_s`."""
        after_s = self.spent_s()
        if before_s is not None and after_s is not None:
            self._cpu_s += after_s - before_s

    def read(self) -> Listener:
        """What it came to."""
        return self._found if self._process is None else replace(self._found, cpu_s=self._cpu_s)


def metered(work: Work, meter: ListenerMeter) -> Work:
    """The same work, each measured turn of it metered."""

    def turned(turn: Turn, rows: RowWriter) -> Worked:
        if turn.number < 0:
            return work(turn, rows)
        before_s = meter.spent_s()
        worked = work(turn, rows)
        meter.add(before_s)
        return worked

    return turned
