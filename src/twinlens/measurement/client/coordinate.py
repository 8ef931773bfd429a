"""One load played by several clients: their rows in one stream, and nothing lost when one of them is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from twinlens.errors import ExecutorFailed
from twinlens.measurement.client.merge import RowMerge
from twinlens.measurement.client.messages import Failed, Job, Lost, PlayEnded, Report, Some, packed, unpacked
from twinlens.measurement.client.pool import ClientHandle, fail
from twinlens.measurement.client.state import ClientState
from twinlens.record.client import ClientRecord
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.schedule.lost_client import LostClientSchedule
from twinlens.schedule.split import is_closed, shared_schedule
from twinlens.system.interrupts import interrupt_once

_POLL_S = 0.02
_STOP_S = 10.0
_LEAD_NS, _FAR_LEAD_NS = 50_000_000, 500_000_000  # until an order has surely arrived


class Coordinator:
    """Plays the jobs of `clients`, one each; `write` takes tables of rows, `progress` the time in the run, in ns."""

    def __init__(
        self,
        jobs: Sequence[Job],
        clients: Sequence[ClientHandle],
        write: Callable[[pa.Table], None],
        progress: Callable[[int], None],
    ) -> None:
        self._jobs, self._clients, self._progress = jobs, clients, progress
        self._known = [ClientState() for _ in clients]
        self._merge = RowMerge(len(clients), write)
        self._origin_ns = 0

    def play(self, began: Callable[[int], None]) -> None:
        """Until all is played; `began` is told time zero, on the monotonic clock, a little before it.

        Raises what kept a client from going on, and ExecutorFailed (TL330) if all of them were lost; the rows are
        written first.
        """
        with interrupt_once():
            self._play(began)
        if all(known.lost for known in self._known):
            first, how = self._clients[0].name, self._known[0].lost
            raise ExecutorFailed(f"every client was lost: {first} {how}", code="TL330")

    def _play(self, began: Callable[[int], None]) -> None:
        for client in self._clients:
            client.align()
        far = any(client.clock for client in self._clients)
        self._origin_ns = time.monotonic_ns() + (_FAR_LEAD_NS if far else _LEAD_NS)
        began(self._origin_ns)
        try:
            for client in self._clients:
                client.begin_at(self._origin_ns)
            while not all(known.is_over for known in self._known):
                time.sleep(_POLL_S)
                self._listen()
        except BaseException:
            self._stop()
            raise
        finally:
            self._merge.close()
            for client in self._clients:
                client.align()

    def losses(self) -> list[Finding]:
        """A finding for each client that was lost."""
        pairs = zip(self._clients, self._known, strict=True)
        return [loss for client, known in pairs if (loss := known.loss(client.name)) is not None]

    def record(self) -> dict[str, Any]:
        """How the clients did, as one and each."""
        ended = [known.ended for known in self._known if known.ended]
        whole = encode(ClientRecord.merged([end.record for end in ended]))
        clocks = [client.clock for client in self._clients]
        bounds = [clock.bound_ns for clock in clocks if clock]
        return whole | {
            "clients": [
                known.record(index, client.name, client.clock)
                for index, (client, known) in enumerate(zip(self._clients, self._known, strict=True))
            ],
            "lost": [encode(loss) for loss in self.losses()],
            "clock_bound_ns": max(bounds) if bounds else None,
        }

    def _listen(self) -> None:
        now_ns = time.monotonic_ns() - self._origin_ns
        for index, client in enumerate(self._clients):
            known = self._known[index]
            if known.remaining is not None:
                self._fail_remaining(index, known.remaining, now_ns)
            elif known.ended is None:
                self._receive(index, client)
        self._merge.flush()
        self._progress(now_ns)

    def _receive(self, index: int, client: ClientHandle) -> None:
        try:
            reports = client.receive()
        except Lost as lost:
            self._lose(index, str(lost))
            return
        for report in reports:
            self._take(index, report)

    def _take(self, index: int, report: Report) -> None:
        known = self._known[index]
        if isinstance(report, Some):
            rows = unpacked(report.rows) if report.rows else None
            if rows is not None:
                known.report(rows)
            known.heard_ns = max(known.heard_ns, report.upto_ns)
            self._merge.take(index, None if rows is None else _signed(rows, index), report.upto_ns)
        elif isinstance(report, PlayEnded):
            known.ended = report
            self._merge.over(index)
        elif isinstance(report, Failed):
            self._merge.over(index)
            known.lost = report.sentence
            fail(self._clients[index].name, report)

    def _lose(self, index: int, how: str) -> None:
        known, job = self._known[index], self._jobs[index]
        known.lost = how
        schedule = shared_schedule(job.spec, job.plan, job.share)
        why = f"{self._clients[index].name} was lost: it {how}"
        now_ns = time.monotonic_ns() - self._origin_ns
        known.remaining = LostClientSchedule(
            schedule, known.reported(), max(0, known.heard_ns), why, closed=is_closed(job.spec)
        )
        self._fail_remaining(index, known.remaining, now_ns)

    def _fail_remaining(self, index: int, remaining: LostClientSchedule, now_ns: int) -> None:
        rows = remaining.due(now_ns)
        self._merge.take(index, _signed(unpacked(packed(rows)), index) if rows else None, now_ns)
        if remaining.next_due_ns() is None:
            self._merge.over(index)

    def _stop(self) -> None:
        """Have all give up, and take what they still have to say."""
        for client, known in zip(self._clients, self._known, strict=True):
            if known.ended is None and known.lost is None:
                client.stop()
        deadline_s = time.monotonic() + _STOP_S
        while time.monotonic() < deadline_s and not all(known.ended or known.lost for known in self._known):
            time.sleep(_POLL_S)
            for index, client in enumerate(self._clients):
                if not (self._known[index].ended or self._known[index].lost):
                    self._receive(index, client)


def _signed(rows: pa.Table, client: int) -> pa.Table:
    place = rows.column_names.index("client")
    return rows.set_column(place, rows.schema.field(place), pa.array(np.full(len(rows), client, np.int32)))
