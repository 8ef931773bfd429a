"""Play a schedule to an engine that batches requests itself, in one thread: what is due is begun, then one step for
all."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twinlens.clock import MonotonicClock
from twinlens.executors.protocol import TakesRow
from twinlens.record.request import Request
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of


@dataclass(slots=True, eq=False)
class Running:
    """A request that the engine has: its handle must live as long as its answer is waited for. `left`: tokens that it
    still waits for. `stamps`: ns since the first schedule began, one per token."""

    scheduled: ScheduledRequest
    handle: Any
    sent_ns: int
    left: int
    stamps: list[int] = field(default_factory=list)


Gained = tuple[Running, int, bool]
"""A request that gained tokens in a step or ended, how many, and whether it ended."""


class Stepper:
    """Plays schedules; times count from the first call.

    `begin`: gives the engine a request (its handle). `step`: one step of the engine for all that run. What is done
    here between two steps is the harness's own, after a step that has emptied the caches: few calls, and the
    schedule is asked only when it may have something.
    """

    def __init__(self, begin: Callable[[ScheduledRequest], Any], step: Callable[[list[Running]], list[Gained]]) -> None:
        self._begin, self._step = begin, step
        self._origin_ns: int | None = None

    def play(self, schedule: Schedule, rows: TakesRow) -> None:
        """As `Server.play`."""
        now_ns = time.monotonic_ns
        if self._origin_ns is None:
            self._origin_ns = now_ns()
        origin_ns = self._origin_ns
        running: list[Running] = []
        due_ns: int | None = 0
        while True:
            if due_ns is not None and due_ns <= now_ns() - origin_ns:
                for scheduled in schedule.due(now_ns() - origin_ns):
                    sent_ns = now_ns() - origin_ns
                    running.append(Running(scheduled, self._begin(scheduled), sent_ns, scheduled.output_tokens))
                due_ns = schedule.next_due_ns()
            if running:
                if self._stepped(running, rows, schedule, origin_ns):
                    due_ns = schedule.next_due_ns()
            elif due_ns is not None:
                MonotonicClock().sleep_until_ns(origin_ns + due_ns)
            else:
                return

    def _stepped(self, running: list[Running], rows: TakesRow, schedule: Schedule, origin_ns: int) -> bool:
        """Do one step, and say whether a request ended in it; those are taken out of `running`."""
        gained, has_ended = self._step(running), False
        now_ns = time.monotonic_ns() - origin_ns
        for one, tokens, is_ended in gained:
            one.stamps += (now_ns,) * tokens
            one.left -= tokens
            if is_ended:
                running.remove(one)
                row, has_ended = row_of(one, now_ns), True
                rows(row)
                schedule.done(row)
        return has_ended


def row_of(one: Running, now_ns: int) -> Request:
    """The row of a request that has ended. Fewer tokens than were asked for: it was cut off."""
    whole = len(one.stamps) == one.scheduled.output_tokens
    return request_of(
        one.scheduled,
        sent_ns=one.sent_ns,
        chunk_ns=tuple(one.stamps),
        chunk_tokens=(1,) * len(one.stamps),
        end_ns=one.stamps[-1] if one.stamps else now_ns,
        output_tokens=len(one.stamps),
        outcome="ok" if whole else "cut_off",
    )
