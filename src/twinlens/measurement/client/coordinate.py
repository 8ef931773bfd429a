"""One load played by several clients: their rows in one stream, and nothing lost when one of them is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from twinlens.errors import ExecutorFailed
from twinlens.measurement.client.clock import Offset
from twinlens.measurement.client.messages import Failed, Job, Lost, PlayEnded, Report, Some, packed, unpacked
from twinlens.measurement.client.pool import ClientHandle, fail
from twinlens.record.client import ClientRecord, LagCount
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.record.request import Request
from twinlens.schedule.split import LostClientSchedule, is_closed, shared_schedule
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


# Rows of several clients as one stream, in the order of their ends, as they come.

_NEVER = 1 << 62


class RowMerge:
    """Holds a row back until every client has said that it has reported all that ended before it.

    A row that comes later than its client said goes out at once, a little out of order: nothing is dropped.
    """

    def __init__(self, clients: int, write: Callable[[pa.Table], None]) -> None:
        self._upto_ns = [0] * clients
        self._waiting: list[pa.Table] = []
        self._write = write

    def take(self, client: int, rows: pa.Table | None, upto_ns: int) -> None:
        """Rows of a client, which has now reported all that ended before `upto_ns`."""
        if rows is not None and len(rows):
            self._waiting.append(rows)
        self._upto_ns[client] = max(self._upto_ns[client], upto_ns)

    def over(self, client: int) -> None:
        """Nothing more will come from this client."""
        self._upto_ns[client] = _NEVER

    def flush(self) -> None:
        """Write what can be written."""
        self._flush(min(self._upto_ns))

    def close(self) -> None:
        """Write all that is left."""
        self._flush(_NEVER)

    def _flush(self, until_ns: int) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting).sort_by("end_ns")
        cut = int(np.searchsorted(rows.column("end_ns").to_numpy(), until_ns, side="right"))
        if cut:
            self._write(rows.slice(0, cut))
        # Taken, not sliced: a slice would keep the memory of what has been written.
        rest = rows.take(np.arange(cut, len(rows)))
        self._waiting = [rest] if len(rest) else []


# The state of one client during a run, and what is recorded of it afterwards.

_KEPT = ["group", "intended_ns", "end_ns", "session", "turn"]


@dataclass(slots=True)
class ClientState:
    """`heard_ns`: up to when it has reported everything. `remaining`: plays on in its place once it is lost."""

    late: LagCount = field(default_factory=LagCount)
    rows: int = 0
    heard_ns: int = 0
    ended: PlayEnded | None = None
    lost: str | None = None
    remaining: LostClientSchedule | None = None
    _reported: list[pa.Table] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.ended is not None or (self.remaining is not None and self.remaining.next_due_ns() is None)

    def report(self, rows: pa.Table) -> None:
        """It has reported these."""
        self._reported.append(rows.select(_KEPT))
        self.rows += len(rows)
        self.late.add(_late_ns(rows))

    def reported(self) -> Iterator[Request]:
        """As much of its rows as a schedule looks at, in the order in which they came; once only."""
        tables, self._reported = self._reported, []
        for table in tables:
            for row in table.to_pylist():
                rest = {"sent_ns": row["intended_ns"], "chunk_ns": (), "chunk_tokens": (), "input_tokens": 0}
                yield Request(output_tokens=0, **rest, **row)

    def loss(self, name: str) -> Finding | None:
        """How it was lost and how many requests that cost; None where it was not."""
        if self.lost is None:
            return None
        cost = self.remaining.count if self.remaining else 0
        numbers = {"how": self.lost, "after_s": max(0, self.heard_ns) / 1e9, "requests": cost}
        return Finding("client-lost", "disqualifies", name, numbers)

    def record(self, index: int, name: str, clock: Offset | None) -> dict[str, Any]:
        """All of it as plain data; times in ns."""
        late = {f"late_p{share * 100:g}_ns": self.late.quantile_ns(share) for share in (0.5, 0.99)}
        return {
            "client": index,
            "name": name,
            "rows": self.rows,
            "lost": self.lost,
            "cpu_s": self.ended.cpu_s if self.ended else None,
            "clock_offset_ns": clock.offset_ns if clock else None,
            "clock_bound_ns": clock.bound_ns if clock else None,
            **late,
            "late_max_ns": self.late.max_ns,
            **(encode(self.ended.record) if self.ended else {}),
        }


def _late_ns(rows: pa.Table) -> np.ndarray:
    due = rows.column("released_ns").combine_chunks().fill_null(-1).to_numpy()
    due = np.where(due < 0, rows.column("intended_ns").to_numpy(), due)
    return np.asarray(np.maximum(0, rows.column("sent_ns").to_numpy() - due))
