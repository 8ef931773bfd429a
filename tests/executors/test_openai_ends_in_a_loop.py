"""Requests that leave before the answer they follow is understood: the rows are those of a closed loop."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hostile_server import DONE, END, HEAD, Asked, chunk, hostile, said, usage
from http_play import TOKENS, asks, opened

from twinlens.network.dialect.openai import RequestWriter
from twinlens.record.request import Request
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.request import ScheduledRequest

TOKEN = chunk(said(content="x"))
LAST = TOKEN + chunk(said("length")) + chunk(usage(TOKENS)) + chunk(DONE) + END


class Noted(ClosedLoop):
    """Remembers what it handed out, and how."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.taken: list[int] = []
        self.given: list[int] = []

    def take(self, now_ns: int) -> ScheduledRequest | None:
        scheduled = super().take(now_ns)
        self.taken += [scheduled.number] if scheduled else []
        return scheduled

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        due = super().due(now_ns)
        self.given += [scheduled.number for scheduled in due]
        return due


def piecewise(asked: Asked) -> None:
    for part in (HEAD, TOKEN, TOKEN, TOKEN * (TOKENS - 3)):
        asked.send(part)
        asked.wait(0.005)
    asked.send(LAST)


def test_rows_are_those_of_a_closed_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request once, never more in flight than slots, and intended at the very moment at which an answer ended."""
    schedule, rows, lock = Noted(4, asks(40)), list[Request](), threading.Lock()
    running = most = 0

    def behave(asked: Asked) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        asked.send(HEAD, TOKEN)
        asked.wait(0.005)
        for _ in range(TOKENS - 2):
            asked.send(TOKEN)
            asked.wait(0.002)
        with lock:
            running -= 1
        asked.send(LAST)

    with hostile(behave) as server, opened(server.url) as client:
        client.play(schedule, rows.append)
    assert {row.outcome for row in rows} == {"ok"}
    assert sorted(row.group for row in rows) == list(range(40))
    assert sorted(schedule.taken + schedule.given) == list(range(40))
    assert schedule.taken, "no answer was seen to end before it was understood"
    assert most <= 4
    ends = {row.end_ns for row in rows}
    assert all(row.intended_ns in ends and row.sent_ns >= row.intended_ns for row in rows if row.group >= 4)


@pytest.mark.parametrize("at", [1, 2, 5, 9])
def test_an_interrupt_between_an_answer_and_what_follows_it_loses_no_row(at: int) -> None:
    schedule, rows = Noted(3, asks(60)), list[Request]()

    def take(row: Request) -> None:
        rows.append(row)
        if len(rows) == at:
            raise KeyboardInterrupt

    with hostile(piecewise) as server, opened(server.url) as client, pytest.raises(KeyboardInterrupt):
        client.play(schedule, take)
    assert sorted(row.group for row in rows) == sorted(schedule.taken + schedule.given)
    assert all(row.intended_ns <= row.sent_ns <= row.end_ns for row in rows)


def test_an_answer_that_is_broken_inside_a_good_frame_fails_and_what_follows_it_does_not() -> None:
    def behave(asked: Asked) -> None:
        for part in (HEAD, TOKEN, TOKEN):
            asked.send(part)
            asked.wait(0.005)
        bad = chunk(b"data: {no\n\n") if asked.number % 2 else TOKEN * (TOKENS - 3)
        asked.send(bad + LAST)

    schedule, rows = Noted(2, asks(12)), list[Request]()
    with hostile(behave) as server, opened(server.url) as client:
        client.play(schedule, rows.append)
    assert sorted(row.group for row in rows) == list(range(12))
    assert {row.outcome for row in rows} == {"ok", "failed"}
    assert all(row.intended_ns <= row.sent_ns for row in rows)


def test_requests_are_written_before_an_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    row_of, of = RequestWriter.row, RequestWriter.of

    def written(self: Any, *rest: Any) -> bytes:
        order.append("written")
        return of(self, *rest)

    def made(*rest: Any, **more: Any) -> Request:
        order.append("row")
        return row_of(*rest, **more)

    monkeypatch.setattr(RequestWriter, "of", written)
    monkeypatch.setattr(RequestWriter, "row", made)
    with hostile(piecewise) as server, opened(server.url) as client:
        order.clear()
        client.play(ClosedLoop(2, asks(8)), lambda row: None)
    assert order.index("row") >= 4, "two that go out and two in stock, before the first has ended"
    assert order.count("written") == 8, "none of them twice"


def test_a_slot_that_was_taken_is_not_free_again() -> None:
    schedule = ClosedLoop(2, asks(4), until_ns=100)
    first = schedule.due(0)
    assert [scheduled.number for scheduled in first] == [0, 1]
    assert (schedule.coming(0), schedule.coming(2)) == (asks(4)[2], None)
    taken = schedule.take(50)
    assert taken is not None
    assert taken.number == 2
    row = Request(0, 0, 0, (), (), 50, 5, 6)
    schedule.done_with_follower(row)
    assert schedule.due(60) == ()
    assert schedule.take(100) is None, "the time is over"
    schedule.done(row)
    assert [(scheduled.number, scheduled.intended_ns) for scheduled in schedule.due(60)] == [(3, 50)]
