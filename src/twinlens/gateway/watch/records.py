"""Rows of the gateway's traffic: a run like any other for each day (UTC), written as requests end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from twinlens.errors import TwinlensError
from twinlens.gateway.outcome import Outcome
from twinlens.gateway.watch.day import Day, Front

WRITE_S = 0.2
"""Rows are on disk so soon after their end: what a crash loses at most."""
_AGAIN_S = 10.0
_SECOND_NS = 1_000_000_000


class Records:
    """Takes each outcome once, and writes them from a thread of its own. Without a place it writes nothing.

    A request belongs to the day in which it came; a day is over when no request of it can be on its way any more,
    `longest_s` after midnight. `also`: told of each outcome by the same thread, after it was written. `lost`: rows
    that could not be written, `trouble`: why, "" where all is well.
    """

    def __init__(self, out: Path | None = None, front: Front | None = None, *, longest_s: float = 600.0,
                 wall_s: Callable[[], float] = time.time,
                 also: tuple[Callable[[Outcome], None], ...] = ()) -> None:  # fmt: skip
        self._out, self._front, self._longest_s, self._wall_s = out, front, longest_s, wall_s
        self._also = also
        self._taken: deque[Outcome] = deque()
        self._days: dict[str, Day] = {}
        self._begun_ns, self._not_before_s = time.monotonic_ns(), 0.0
        self.lost, self.trouble = 0, ""
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        if out is not None and front is not None:
            self._thread = threading.Thread(target=self._write, name="rows of traffic", daemon=True)
            self._thread.start()

    def add(self, outcome: Outcome) -> None:
        """Write it down, a little later."""
        if self._thread is not None:
            self._taken.append(outcome)

    def close(self) -> None:
        """Write what is left and end the runs; once."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def folders(self) -> tuple[Path, ...]:
        """Of the runs that are being written."""
        return tuple(each.folder for each in list(self._days.values()))

    def _write(self) -> None:
        while not self._over.wait(WRITE_S):
            self._drain()
            self._end_days(is_last=False)
        self._drain()
        self._end_days(is_last=True)

    def _drain(self) -> None:
        outcomes = [self._taken.popleft() for _ in range(len(self._taken))]
        behind_ns = int(self._wall_s() * _SECOND_NS) - time.monotonic_ns()
        by_day: dict[str, list[Outcome]] = {}
        for each in outcomes:
            by_day.setdefault(_day_of(each.intended_ns + behind_ns), []).append(each)
        for name, of_day in by_day.items():
            if time.monotonic() < self._not_before_s:
                self.lost += len(of_day)
                continue
            try:
                self._add(name, of_day, behind_ns)
                self.trouble = ""
            except (TwinlensError, OSError) as error:  # the disk is full: later rows are tried again, in a new run
                self.lost += len(of_day)
                self.trouble = str(error)
                self._not_before_s = time.monotonic() + _AGAIN_S
                self._days.pop(name, None)
        for each in outcomes:
            for tell in self._also:
                tell(each)

    def _add(self, name: str, outcomes: list[Outcome], behind_ns: int) -> None:
        if name in self._days:
            self._days[name].add(outcomes)
            return
        assert self._out is not None
        assert self._front is not None
        midnight_ns = int(datetime.fromisoformat(f"{name}T00:00:00+00:00").timestamp()) * _SECOND_NS - behind_ns
        origin_ns = max(self._begun_ns, midnight_ns)
        self._days[name] = Day(self._out, name, self._front, outcomes, origin_ns)

    def _end_days(self, *, is_last: bool) -> None:
        still = _day_of(int((self._wall_s() - self._longest_s - 2 * WRITE_S) * _SECOND_NS))
        for name in [each for each in self._days if is_last or each < still]:
            with contextlib.suppress(TwinlensError, OSError):  # its rows are readable without an end
                self._days.pop(name).end(waits=is_last)


def _day_of(wall_ns: int) -> str:
    return datetime.fromtimestamp(wall_ns / _SECOND_NS, UTC).date().isoformat()
