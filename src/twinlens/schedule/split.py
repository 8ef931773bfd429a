"""One load for several clients: which part of it each plays, so that together they play all of it and nothing twice.

Every n-th ask, or session, of the same seeded plan: the deadlines stay absolute, so clients that share a clock send
together what one would have sent. A closed loop is split by its slots: each slot is some client's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, overload

import numpy as np

from twinlens.errors import BadInput
from twinlens.record.request import Request
from twinlens.schedule.admission import Continuous
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.conversation import Conversation, endless_sessions
from twinlens.schedule.draw import endless_requests
from twinlens.schedule.open_loop import OpenLoop
from twinlens.schedule.plan import Plan
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.arrival import Closed
from twinlens.spec.workload.workload import InferenceWorkload


@dataclass(frozen=True, slots=True)
class Share:
    """Part `index` (from 0) of `count`."""

    index: int
    count: int

    def of(self, total: int) -> int:
        """How many of `total` are this part's; the parts add up to it."""
        return len(range(self.index, total, self.count))


def refuse_unshared(spec: RunSpec, count: int) -> None:
    """Raises BadInput (TL202) for a load that only one client can play."""
    arrival, point = _inference(spec).arrival.kind, spec.point
    if count <= 1:
        return
    why = ""
    if point.admission in ("static", "dynamic") or point.in_flight is not None:
        why = "an admission policy holds all requests at one gate"
    elif arrival == "single-stream":
        why = "a single stream has one request in flight"
    elif arrival == "closed" and (point.concurrency or 1) < count:
        why = f"a concurrency of {point.concurrency} gives {count} clients nothing to do each"
    if why:
        raise BadInput(
            f"{why}: it cannot be split over {count} clients; take executor.options.clients = 1", code="TL202"
        )


def shared_schedule(spec: RunSpec, plan: Plan | None, share: Share) -> Schedule:
    """The part of a run's load that one client plays. `plan` is that of `load_of(spec)`, None for a closed loop."""
    schedule = _closed(spec, share) if plan is None else _open(spec, plan, share)
    return schedule if spec.point.admission is None else Continuous(schedule)


def is_closed(spec: RunSpec) -> bool:
    """Whether an end starts the next request, so that a client that is lost takes its load along."""
    return isinstance(_inference(spec).arrival, Closed)


def _closed(spec: RunSpec, share: Share) -> Schedule:
    workload, until_ns = _inference(spec), round(spec.protocol.duration_s * 1e9)
    concurrency = share.of(spec.point.concurrency or 1)
    if workload.sessions is not None:
        sessions = endless_sessions(workload, seed=spec.seed, prompt_seed=spec.prompt_seed())
        return Conversation(_own(sessions, share), concurrency, until_ns=until_ns)
    upcoming = endless_requests(workload, seed=spec.seed, prompt_seed=spec.prompt_seed())
    own = islice(upcoming, share.index, None, share.count)
    return ClosedLoop(concurrency, own, until_ns=until_ns, min_requests=share.of(spec.protocol.min_rows))


def _open(spec: RunSpec, plan: Plan, share: Share) -> Schedule:
    if plan.session is None:
        return OpenLoop(_Every(plan, share))
    return Conversation(_own(iter([plan]), share), until_ns=round(spec.protocol.duration_s * 1e9))


def _own(plans: Iterator[Plan], share: Share) -> Iterator[Plan]:
    """Every n-th session, whole, as a plan of its own."""
    sessions = (session for plan in plans for session in _sessions(plan))
    return islice(sessions, share.index, None, share.count)


def _sessions(plan: Plan) -> Iterator[Plan]:
    assert plan.turn is not None
    for begin, stop in pairwise([*np.flatnonzero(plan.turn == 0).tolist(), len(plan)]):
        yield _rows(plan, begin, stop)


def _rows(plan: Plan, begin: int, stop: int) -> Plan:
    cut: dict[str, Any] = {
        name: None if (column := getattr(plan, name)) is None else column[begin:stop]
        for name in ("intended_ns", "input_tokens", "output_tokens", "prefix_tokens", "prefix_id", "session", "turn",
                     "think_ns")
    }  # fmt: skip
    return replace(plan, first_number=plan.first_number + begin, **cut)


class _Every(Sequence[ScheduledRequest]):
    """Every n-th ask of a plan, read where it lies."""

    def __init__(self, plan: Plan, share: Share) -> None:
        self._plan, self._rows = plan, range(share.index, len(plan), share.count)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, row: int) -> ScheduledRequest: ...
    @overload
    def __getitem__(self, row: slice) -> list[ScheduledRequest]: ...
    def __getitem__(self, row: int | slice) -> ScheduledRequest | list[ScheduledRequest]:
        if isinstance(row, slice):
            return [self._plan[i] for i in self._rows[row]]
        return self._plan[self._rows[row]]


def _inference(spec: RunSpec) -> InferenceWorkload:
    assert isinstance(spec.workload, InferenceWorkload)
    return spec.workload


# Requests that a lost client had not finished: its schedule is played on, and each of them is recorded as failed.
#
# An open loop's load was offered whether or not anybody was there to send it, so its later requests fail too, each when
# it is due. In a closed loop the load goes with the client: only what was under way fails.


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
