"""Small schedules to play to a server, and one that remembers what it was told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twinlens.record.request import Request
from twinlens.schedule.request import Schedule, ScheduledRequest


class Watched:
    """A schedule that remembers what it handed out and what it was told is done."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.asked: list[ScheduledRequest] = []
        self.done_with: list[Request] = []

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        upcoming = self._schedule.due(now_ns)
        self.asked += upcoming
        return upcoming

    def next_due_ns(self) -> int | None:
        return self._schedule.next_due_ns()

    def done(self, request: Request) -> None:
        self.done_with.append(request)
        self._schedule.done(request)


class TimedRequests:
    """Requests due at given times, one after another: nothing is due in between, and yet it is not over."""

    def __init__(self, due_ns: Sequence[int], input_tokens: int, output_tokens: int) -> None:
        self._left = [
            ScheduledRequest(number, number, at_ns, input_tokens, output_tokens, (9, number))
            for number, at_ns in enumerate(due_ns)
        ]
        self._running = False

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        if self._running or not self._left or now_ns < self._left[0].intended_ns:
            return ()
        self._running = True
        return (self._left.pop(0),)

    def next_due_ns(self) -> int | None:
        return self._left[0].intended_ns if self._left and not self._running else None

    def done(self, request: Request) -> None:
        self._running = False


class SessionOfTurns:
    """One session of so many turns, let go by an admission policy: the schedule finds its own again by the row.

    A row that does not carry its session and turn ends it with a KeyError, as a real conversation would.
    """

    def __init__(self, turns: int, input_tokens: int, output_tokens: int, session: int = 5) -> None:
        history = tuple(length for _ in range(turns) for length in (input_tokens, output_tokens))
        self._left = {
            turn: ScheduledRequest(
                number=turn,
                group=turn,
                intended_ns=0,
                input_tokens=turn * (input_tokens + output_tokens) + input_tokens,
                output_tokens=output_tokens,
                seed=(9, session),
                session=session,
                turn=turn,
                history=history[: 2 * turn + 1],
            )
            for turn in range(turns)
        }
        self._playing: tuple[int | None, int | None] | None = None
        self._at_ns = 0

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        if self._playing is not None or not self._left:
            return ()
        scheduled = self._left.pop(min(self._left))
        self._playing = (scheduled.session, scheduled.turn)
        return (replace(scheduled, intended_ns=self._at_ns, released_ns=max(now_ns, self._at_ns)),)

    def next_due_ns(self) -> int | None:
        return self._at_ns if self._left and self._playing is None else None

    def done(self, request: Request) -> None:
        if (request.session, request.turn) != self._playing:
            raise KeyError(f"a row of session {request.session}, turn {request.turn}; {self._playing} was asked")
        self._playing, self._at_ns = None, request.end_ns
