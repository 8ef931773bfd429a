"""Lockstep batches: requests that are due together are answered as one, token by token."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from twinlens.clock import MonotonicClock
from twinlens.errors import BadInput
from twinlens.executors.protocol import TakesRow
from twinlens.record.request import Request
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of

Answer = Callable[[tuple[ScheduledRequest, ...]], tuple[int, list[int]]]
"""Answers one batch: when it began and when each token was there, on the monotonic clock, in ns."""


class LockstepPlayer:
    """Plays schedules to an engine; times count from the first call. `is_text`: answers have tokens, images none."""

    def __init__(self, answer: Answer, *, is_text: bool) -> None:
        self._answer, self._is_text = answer, is_text
        self._origin_ns: int | None = None

    def play(self, schedule: Schedule, rows: TakesRow) -> None:
        """As `Server.play`. Raises BadInput (TL202) for requests of one batch whose lengths differ."""
        if self._origin_ns is None:
            self._origin_ns = time.monotonic_ns()
        origin_ns, clock = self._origin_ns, MonotonicClock()
        while True:
            if upcoming := schedule.due(clock.now_ns() - origin_ns):
                if self._is_text:
                    refuse_uneven(upcoming)
                begin_ns, stamps = self._answer(upcoming)
                for row in rows_of(upcoming, begin_ns - origin_ns, [s - origin_ns for s in stamps], self._is_text):
                    rows(row)
                    schedule.done(row)
            elif (due_ns := schedule.next_due_ns()) is not None:
                clock.sleep_until_ns(origin_ns + due_ns)
            else:
                return


def rows_of(
    upcoming: tuple[ScheduledRequest, ...], sent_ns: int, stamps: Sequence[int], is_text: bool
) -> list[Request]:
    """One row for each request of a batch: all of them have the times of the batch."""
    times = tuple(stamps)
    tokens = (1,) * len(times) if is_text else (0,)
    return [
        request_of(
            scheduled,
            sent_ns=sent_ns,
            chunk_ns=times,
            chunk_tokens=tokens,
            end_ns=times[-1],
            output_tokens=sum(tokens),
        )
        for scheduled in upcoming
    ]


def refuse_uneven(upcoming: tuple[ScheduledRequest, ...]) -> None:
    """Raises BadInput (TL202) for requests of one batch whose lengths differ: a batch has one shape."""
    lengths = sorted({(request.input_tokens, request.output_tokens) for request in upcoming})
    if len(lengths) > 1:
        raise BadInput(
            f"the embedded engine answers a batch of one length, and these requests have {len(lengths)} "
            f"(prompt and answer of {lengths[0]} to {lengths[-1]} tokens); give each its own batch, or take a server",
            code="TL202",
        )
