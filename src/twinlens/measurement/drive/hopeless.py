"""Ends of a run before its time: by one and the same failure for a while, or by a steady rate that is known. Pure.

Either from the start, whatever the failure is; or, later, where nobody takes connections any more. A share of failures
never ends a run, nor does a server that comes back in time: one answer that ends well, or fails otherwise, begins anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from twinlens.errors import ExecutorFailed
from twinlens.record.arrow import RowWriter, read_rows
from twinlens.record.request import Request
from twinlens.record.run import ROWS
from twinlens.schedule.request import Schedule, ScheduledRequest, SeesEnds, Settled
from twinlens.spec.study import RunSpec
from twinlens.stats.row_kind import ROW_KINDS
from twinlens.stats.steady.levels import SteadyRule

FEWEST = 20
"""Failures that must have come, however long it took."""
_NUMBER = re.compile(r"\d+")


class Hope:
    """Told of each row as it ends; `lost` is then None or the sentence with which the run is given up.

    `patience_s`: how long the same failure must have been all that came; 0: for ever. `is_up`: whether a server that
    was launched still lives; once it does not, there is nothing to wait for.
    """

    def __init__(self, patience_s: float, is_up: Callable[[], bool] = lambda: True) -> None:
        self._patience_ns, self._is_up = round(patience_s * 1e9), is_up
        self._kind: tuple[str, str] | None = None
        self._count, self._since_ns, self._rows = 0, 0, 0
        self.lost: str | None = None

    def see(self, outcome: str, error: str | None, end_ns: int, loss: str | None = None) -> None:
        """One request has ended, `end_ns` after the start of the run; `loss`: how its connection was lost."""
        self._rows += 1
        if outcome == "ok":
            self._kind = None
            return
        if (kind := (outcome, _NUMBER.sub("0", error or ""))) != self._kind:
            self._kind, self._count, self._since_ns = kind, 0, end_ns
        self._count += 1
        is_gone = loss == "never open"
        if not self._patience_ns or self.lost or self._count < FEWEST:
            return
        if not is_gone and self._count < self._rows:
            return
        waited_ns = end_ns - self._since_ns
        if waited_ns >= self._patience_ns or (is_gone and not self._is_up()):
            self.lost = (
                f"given up after {self._rows} requests: the last {self._count}, over {waited_ns / 1e9:.1f} s, all "
                f"ended alike ({error or outcome}); the rows are kept"
            )

    def check(self) -> None:
        """Raises ExecutorFailed (TL306) for a run that was given up."""
        if self.lost:
            raise ExecutorFailed(self.lost, code="TL306")


class Ends(Protocol):
    """Something that ends a schedule once `lost` says why."""

    lost: str | None


class WhileThereIsHope:
    """A schedule that is over once there is none: what is in flight ends, and nothing more is asked."""

    def __init__(self, schedule: Schedule, hope: Ends) -> None:
        self._schedule, self._hope = schedule, hope
        self.is_settled = isinstance(schedule, Settled) and schedule.is_settled

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        return () if self._hope.lost else self._schedule.due(now_ns)

    def next_due_ns(self) -> int | None:
        return None if self._hope.lost else self._schedule.next_due_ns()

    def done(self, request: Request) -> None:
        self._schedule.done(request)


class SeesEndsWhileThereIsHope(WhileThereIsHope):
    """The same for a schedule that sees ends, method by method: `isinstance` looks past a `__getattr__`."""

    def __init__(self, schedule: SeesEnds, hope: Ends) -> None:
        super().__init__(schedule, hope)
        self._sees_ends = schedule

    def coming(self, place: int) -> ScheduledRequest | None:
        return self._sees_ends.coming(place)

    def take(self, now_ns: int) -> ScheduledRequest | None:
        return None if self._hope.lost else self._sees_ends.take(now_ns)

    def done_with_follower(self, request: Request) -> None:
        self._sees_ends.done_with_follower(request)


def while_there_is_hope(schedule: Schedule, hope: Ends) -> Schedule:
    """The schedule, over once `hope` is lost; it sees ends where the schedule does."""
    if isinstance(schedule, SeesEnds):
        return SeesEndsWhileThereIsHope(schedule, hope)
    return WhileThereIsHope(schedule, hope)


def is_settled(rows: RowWriter, spec: RunSpec) -> bool:
    """Test the rows written so far: compiling rows, evaluations and work as the verdict takes them.

    Reads them back, so call it when time is up and not at each row.
    """
    rows.flush()
    rule = SteadyRule(min_seconds=spec.protocol.steady_s)
    name, schema = ROWS[spec.lens]
    steadiness = ROW_KINDS[spec.lens].steadiness(read_rows(rows.folder / f"{name}.arrows", schema), rule)
    return steadiness is not None and steadiness.validity == "valid"
