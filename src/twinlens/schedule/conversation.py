"""Sessions of several turns: a turn is due when the one before has ended and its user has thought."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count as counting
from itertools import pairwise

import numpy as np

from twinlens.record.request import Request
from twinlens.schedule.draw import drawn, prefixes, sample_lengths
from twinlens.schedule.plan import NONE, Plan
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.workload.prompt import Sessions
from twinlens.spec.workload.workload import InferenceWorkload

_TURNS, _SESSION = 5, 6  # streams of random numbers
_SOME = 64


def session_requests(
    workload: InferenceWorkload,
    starts_ns: np.ndarray,
    *,
    seed: int,
    prompt_seed: int,
    first_session: int = 0,
    first_number: int = 0,
) -> Plan:
    """All turns of sessions that start at the given times, shape (sessions,), session after session.

    A prompt is the prefix, if any, and all that was said before: what the user says in turn t is drawn from
    `input_tokens`, the answers count with the lengths asked for, so that every server gets the same prompts.
    """
    spec, count = workload.sessions, len(starts_ns)
    assert spec is not None
    turns = drawn(lambda rng, n: sample_lengths(spec.turns, rng, n), seed, _TURNS, first_session, count)
    ids, shared = np.full(count, NONE), np.zeros(count, dtype=np.int64)
    if workload.prefix is not None:
        ids, shared = prefixes(workload.prefix, seed, first_session, count)
    columns = [np.empty((4, 0), dtype=np.int64)]
    for i in range(count):
        rng = np.random.default_rng([seed, _SESSION, first_session + i])
        columns.append(_session(workload, spec, int(turns[i]), int(shared[i]), int(starts_ns[i]), rng))
    sizes = np.array([column.shape[1] for column in columns[1:]], dtype=np.int64)
    of = np.repeat(np.arange(count), sizes)
    intended_ns, inputs, outputs, think_ns = np.concatenate(columns, axis=1)
    return Plan(
        prompt_seed,
        intended_ns,
        inputs,
        outputs,
        first_number=first_number,
        prefix_tokens=shared[of],
        prefix_id=ids[of],
        session=of + first_session,
        turn=np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes),
        think_ns=think_ns,
    )


def _session(
    workload: InferenceWorkload, spec: Sessions, turns: int, shared: int, start_ns: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows intended_ns, input_tokens, output_tokens, think_ns of one session. Shape: (4, turns)."""
    users = sample_lengths(workload.input_tokens, rng, turns)
    answers = sample_lengths(workload.output_tokens, rng, turns)
    think_ns = _thinking_ns(spec, rng, turns)
    prompts = shared + np.cumsum(users) + np.cumsum(answers) - answers
    intended_ns = np.full(turns, NONE, dtype=np.int64)
    intended_ns[0], think_ns[0] = start_ns, NONE
    table = np.stack([intended_ns, prompts, answers, think_ns])
    if spec.max_context_tokens is None:
        return table
    # A session has its first turn however long it is: dropping it would drop load that was asked for.
    fits = 1 + int(np.sum((prompts + answers)[1:] <= spec.max_context_tokens))
    return table[:, :fits]


def _thinking_ns(spec: Sessions, rng: np.random.Generator, turns: int) -> np.ndarray:
    if spec.think_cv == 0:
        return np.full(turns, round(spec.think_s * 1e9), dtype=np.int64)
    shape = 1 / spec.think_cv**2
    return np.rint(rng.gamma(shape, spec.think_s / shape * 1e9, turns)).astype(np.int64)


def endless_sessions(workload: InferenceWorkload, *, seed: int, prompt_seed: int) -> Iterator[Plan]:
    """Sessions without end, some at a time, for a closed loop, which decides their starts itself."""
    number = 0
    for first in counting(0, _SOME):
        starts_ns = np.zeros(_SOME, dtype=np.int64)
        plan = session_requests(
            workload, starts_ns, seed=seed, prompt_seed=prompt_seed, first_session=first, first_number=number
        )
        number += len(plan)
        yield plan


class Conversation:
    """Plays the sessions of plans. A turn that fails is followed by the next one all the same: load never shrinks.

    `concurrency` None is an open loop of sessions, which start when the plans say. A number is a closed loop of so
    many users: each starts the next session when the last one of theirs has ended. What would be due at `until_ns` or
    later is not asked. Rows must carry their session and turn, as `request_of` makes them.
    """

    def __init__(
        self, plans: Iterable[Plan], concurrency: int | None = None, *, start_ns: int = 0, until_ns: int | None = None
    ) -> None:
        self._closed, self._until_ns = concurrency is not None, until_ns
        self._sessions = (session for plan in plans for session in _sessions(plan))
        self._next = next(self._sessions, None)
        self._due: list[tuple[int, int, _Session]] = []  # a heap of (intended_ns, row, session)
        self._playing: dict[int, tuple[int, _Session]] = {}
        for _ in range(concurrency or 0):
            self._start(start_ns)

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        due: list[ScheduledRequest] = []
        while (at_ns := self.next_due_ns()) is not None and at_ns <= now_ns:
            if not self._closed and self._next is not None and self._next.start_ns == at_ns:
                self._start(at_ns)
            intended_ns, row, session = heapq.heappop(self._due)
            self._playing[session.number] = (row, session)
            due.append(replace(session.plan[row], intended_ns=intended_ns))
        return tuple(due)

    def next_due_ns(self) -> int | None:
        times = [self._due[0][0]] if self._due else []
        if self._next is not None and not self._closed:
            times.append(self._next.start_ns)
        at_ns = min(times, default=None)
        return None if at_ns is None or (self._until_ns is not None and at_ns >= self._until_ns) else at_ns

    def done(self, request: Request) -> None:
        assert request.session is not None
        row, session = self._playing.pop(request.session)
        if row + 1 < session.stop:
            heapq.heappush(self._due, (request.end_ns + session.think_ns(row + 1), row + 1, session))
        elif self._closed:
            self._start(request.end_ns)

    def _start(self, at_ns: int) -> None:
        if self._next is not None:
            heapq.heappush(self._due, (at_ns, self._next.begin, self._next))
            self._next = next(self._sessions, None)


@dataclass(frozen=True, slots=True, order=True)
class _Session:
    """Rows `begin` to `stop` of a plan."""

    number: int
    begin: int
    stop: int
    plan: Plan = field(compare=False)

    @property
    def start_ns(self) -> int:
        return int(self.plan.intended_ns[self.begin])

    def think_ns(self, row: int) -> int:
        assert self.plan.think_ns is not None
        return int(self.plan.think_ns[row])


def _sessions(plan: Plan) -> Iterator[_Session]:
    if plan.session is None or plan.turn is None:
        raise ValueError("a plan without sessions cannot be played as conversations")
    begins = np.flatnonzero(plan.turn == 0).tolist()
    for begin, stop in pairwise([*begins, len(plan)]):
        yield _Session(int(plan.session[begin]), begin, stop, plan)
