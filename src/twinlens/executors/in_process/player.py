"""Players of a schedule on an engine in this process: step by step, in lockstep batches, and its first two answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinlens.clock import MonotonicClock
from twinlens.errors import BadInput
from twinlens.executors.protocol import TakesRow
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates
from twinlens.record.request import Request
from twinlens.schedule.lockstep import LockstepLoop
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.length import Fixed
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.units import RATIO, SECONDS


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
    """Plays schedules to an engine that batches requests itself: what is due is begun, then one step is done for all.

    Times count from the first call.

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


Answer = Callable[[tuple[ScheduledRequest, ...]], tuple[int, list[int]]]
"""Answers one batch: when it began and when each token was there, on the monotonic clock, in ns."""


class LockstepPlayer:
    """Plays schedules in batches: requests that are due together are answered as one, token by token.

    Times count from the first call. `is_text`: answers have tokens, images none."""

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


Play = Callable[[Schedule, TakesRow], None]
_SEED = 8  # of prompts that are neither the run's nor those of the evidence
_CACHED = "bytes of the model's files in the page cache just before the load, by mincore"
_NOT_SAID = "this system does not say what is in its page cache"
_FAILED = "the request was not answered"


def loaded(seconds: float, how: str, cached: float | None) -> Estimates:
    """Seconds to load, and the share of the model's files in the page cache before that; `how`: what was loaded."""
    warm = "" if cached is None else f"; page cache {'cold' if cached < 0.01 else f'{cached:.0%} warm'}"
    share = Estimate.absent(RATIO, _NOT_SAID) if cached is None else Estimate(cached, RATIO, _CACHED, "measured", n=1)
    return {"start_load_s": Estimate(seconds, SECONDS, how + warm, "measured", n=1), "start_cached_share": share}


def first_answers(play: Play, spec: RunSpec, *, together: int, is_text: bool, before: str = "") -> Estimates:
    """Seconds from sending to the first token (or class) of the first two batches after the load, one after the other.

    `play`: a player of its own, as times of the run count from that player's first call. `together`: requests of one
    batch. `before`: what the same process had computed already, for the method.
    """
    rows: list[Request] = []
    lengths = _one_token(spec) if is_text else (None, None)
    play(LockstepLoop(together, *lengths, until_ns=0, min_requests=2 * together, seed=_SEED), rows.append)
    return estimates_of(rows[::together], together, is_text=is_text, before=before)


def estimates_of(heads: Sequence[Request], together: int, *, is_text: bool, before: str) -> Estimates:
    """The estimates of the first rows of both batches, in the order in which they were sent."""
    what, unit = ("token", "prompts") if is_text else ("answer", "images")
    batch = f"of a batch of {together} {unit} of the run's largest size, from sending"
    found: Estimates = {}
    for place, row in zip(("first", "second"), heads, strict=False):
        name = f"start_{place}_{what}_s"
        if row.outcome == "ok" and row.chunk_ns:
            method = f"{what} of the {place} request after the load, {batch}{before}"
            found[name] = Estimate((row.chunk_ns[0] - row.sent_ns) / 1e9, SECONDS, method, "measured", n=1)
        else:
            found[name] = Estimate.absent(SECONDS, _FAILED)
    return found


def _one_token(spec: RunSpec) -> tuple[Fixed, Fixed]:
    """One token: a graph of the decode that is compiled at the second token is not part of the first."""
    assert isinstance(spec.workload, InferenceWorkload)
    return Fixed(value=spec.workload.input_tokens.max), Fixed(value=1)
