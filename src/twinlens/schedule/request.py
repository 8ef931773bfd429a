"""A scheduled request, and the protocol of a schedule that says when each is due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from twinlens.record.request import Request
from twinlens.record.sections import Response


@dataclass(frozen=True, slots=True)
class ScheduledRequest:
    """`number`: position in the schedule. `group`: requests that start together share it. Lengths in tokens (0 for
    images).

    `seed` decides the prompt's own words, so that no two requests of a run, and no two runs, share one; its first
    number is the whole schedule's. `input_tokens` is the whole prompt: first `prefix_tokens` of the shared prefix
    `prefix_id`, then what is its own. Turns of one `session` share a seed: each prompt goes on where the one before
    ended, and `history` holds the tokens of what was said: user, answer, user, …, user. `blocks` are the ids of the
    512-token blocks that a trace says the prompt begins with. `released_ns`: when an admission policy let it go.
    """

    number: int
    group: int
    intended_ns: int
    input_tokens: int
    output_tokens: int
    seed: tuple[int, ...]
    prefix_tokens: int = 0
    prefix_id: int | None = None
    session: int | None = None
    turn: int | None = None
    history: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    released_ns: int | None = None


def request_of(scheduled: ScheduledRequest, **observed: Any) -> Request:
    """The row of a request: what it was comes from the request, what happened (`sent_ns`, `chunk_ns`, …) from
    `observed`.

    `input_tokens` and `output_tokens` are those asked for unless the server said otherwise. A schedule knows its own
    again by this row, so an executor makes rows with it and nothing is forgotten.
    """
    planned = {
        "group": scheduled.group,
        "intended_ns": scheduled.intended_ns,
        "input_tokens": scheduled.input_tokens,
        "output_tokens": scheduled.output_tokens,
        "asked_tokens": scheduled.output_tokens,
        "released_ns": scheduled.released_ns,
        "session": scheduled.session,
        "turn": scheduled.turn,
    }
    return Request(**(planned | observed))


TakesRow = Callable[[Request], None]
"""Takes each request as it ends."""
OnResponse = Callable[[ScheduledRequest, Request, Response], None]
"""Takes each request as it ends, with what was asked and what the answer said."""


class Schedule(Protocol):
    """Pure and seeded; it is told the time and what is done, and has no clock of its own."""

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        """The requests to start now; each is handed out once. Empty: nothing is due, or it is over."""
        ...

    def next_due_ns(self) -> int | None:
        """When the next request is due; None when that depends on something being done first, or it is over.

        Behind a gate it may be the moment of an arrival that the gate then holds back: nothing is due, look again.
        """
        ...

    def done(self, request: Request) -> None:
        """One request has ended: its row, whose `end_ns` is later than the one handed on where the stream was over
        later than the answer. What waits for an end waits for that."""
        ...


@runtime_checkable
class Settled(Schedule, Protocol):
    """A schedule that may be known beforehand, whatever happens: its requests can then be written out ahead."""

    is_settled: bool


@runtime_checkable
class SeesEnds(Schedule, Protocol):
    """A schedule whose next request is known before an answer ends, so that it can leave as the end is seen."""

    def coming(self, place: int) -> ScheduledRequest | None:
        """The request that is handed out after `place` others; when it will be due, only an end can tell."""
        ...

    def take(self, now_ns: int) -> ScheduledRequest | None:
        """The next request, for a slot whose answer is seen to have ended well before it is understood; None: see
        `due`."""
        ...

    def done_with_follower(self, request: Request) -> None:
        """`done`, for an answer whose slot has been taken: its end is when what was taken was intended."""
        ...
