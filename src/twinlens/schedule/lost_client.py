"""Requests that a lost client had not finished: its schedule is played on, and each of them is recorded as failed.

An open loop's load was offered whether or not anybody was there to send it, so its later requests fail too, each when
it is due. In a closed loop the load goes with the client: only what was under way fails.
"""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.record.request import Request
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of


class LostClientSchedule:
    """`schedule` is a fresh copy of the lost client's, `reported` the rows it reported, in the order it did.

    `lost_ns`: when it was last heard of. Which requests a schedule hands out depends only on what was done before, so
    playing the reported rows again tells what was under way.
    """

    def __init__(
        self, schedule: Schedule, reported: Iterable[Request], lost_ns: int, why: str, *, closed: bool
    ) -> None:
        self._schedule, self._lost_ns, self._why, self._closed = schedule, lost_ns, why, closed
        self._owed: dict[int, ScheduledRequest] = {}
        self.count = 0
        for row in reported:
            self._look(row.end_ns)
            self._owed.pop(row.group, None)
            schedule.done(row)
            self._lost_ns = max(self._lost_ns, row.end_ns)  # it lived at least as long as that
        self._look(self._lost_ns)

    def due(self, now_ns: int) -> list[Request]:
        """The rows of what has failed by now; each is handed out once."""
        failed: list[Request] = []
        if not self._closed:
            self._look(now_ns)
        while self._owed:
            upcoming, self._owed = list(self._owed.values()), {}
            rows = [self._failed(scheduled) for scheduled in upcoming]
            failed += rows
            if self._closed:
                break
            for row in rows:
                self._schedule.done(row)
            self._look(now_ns)
        self.count += len(failed)
        return failed

    def next_due_ns(self) -> int | None:
        """When something fails next; None: it owes nothing more."""
        if self._owed:
            return self._lost_ns
        return None if self._closed else self._schedule.next_due_ns()

    def _look(self, now_ns: int) -> None:
        self._owed |= {scheduled.number: scheduled for scheduled in self._schedule.due(now_ns)}

    def _failed(self, scheduled: ScheduledRequest) -> Request:
        at_ns = max(scheduled.intended_ns, self._lost_ns)
        return request_of(
            scheduled,
            sent_ns=at_ns,
            chunk_ns=(),
            chunk_tokens=(),
            end_ns=at_ns,
            output_tokens=0,
            outcome="failed",
            error=self._why,
        )
