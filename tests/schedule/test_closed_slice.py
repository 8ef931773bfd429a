"""Turns of a closed loop: whole waves, nothing lost between turns, nothing in flight at their end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from twinlens.record.request import Request
from twinlens.schedule.closed_loop import ClosedLoop, closed_slice
from twinlens.schedule.request import ScheduledRequest, SeesEnds, request_of


def asks(count: int = 10_000) -> Iterator[ScheduledRequest]:
    return (ScheduledRequest(number, number, 0, 4, 2, (1, number)) for number in range(count))


def played(schedule: ClosedLoop, begin_ns: int, takes_ns: int) -> list[Request]:
    """All of it against a server that takes equally long for each."""
    rows: list[Request] = []
    flying: list[tuple[int, ScheduledRequest]] = []
    now_ns = begin_ns
    while True:
        flying += [(scheduled.intended_ns + takes_ns, scheduled) for scheduled in schedule.due(now_ns)]
        if not flying:
            assert schedule.next_due_ns() is None
            return rows
        now_ns, scheduled = min(flying, key=lambda one: one[0])
        flying.remove((now_ns, scheduled))
        rows.append(
            request_of(scheduled, sent_ns=scheduled.intended_ns, chunk_ns=(now_ns,), chunk_tokens=(2,), end_ns=now_ns)
        )
        schedule.done(rows[-1])


@given(st.integers(1, 9), st.integers(1, 40))
def test_a_turn_is_whole_waves_from_the_moment_it_begins(concurrency: int, wanted: int) -> None:
    rows = played(closed_slice(concurrency, asks(), requests=wanted, slice_ns=0), 700, 10)
    assert wanted <= len(rows) < wanted + concurrency
    assert len(rows) % concurrency == 0
    assert min(row.intended_ns for row in rows) == 700
    assert max(row.end_ns for row in rows) == 700 + 10 * len(rows) // concurrency


def test_a_turn_that_ends_by_time_drains_before_it_is_over() -> None:
    rows = played(closed_slice(3, asks(), requests=None, slice_ns=25), 100, 10)
    assert len(rows) == 9
    assert max(row.intended_ns for row in rows) < 125 <= max(row.end_ns for row in rows)


@given(st.lists(st.integers(1, 20), min_size=2, max_size=5), st.integers(1, 4), st.integers(0, 3))
def test_no_request_is_lost_or_asked_twice_between_turns(sizes: list[int], concurrency: int, seen: int) -> None:
    """Also those that were looked at ahead and not handed out."""
    left, groups, now_ns = asks(), list[int](), 0
    for size in [None, *sizes]:
        schedule = closed_slice(concurrency, left, requests=size, slice_ns=15)
        groups += [row.group for row in played(schedule, now_ns, 10)]
        if size is None:
            for place in range(seen):
                schedule.coming(place)
        left, now_ns = chain(schedule.left, left), now_ns + 10_000
    assert sorted(groups) == list(range(len(groups)))


def test_its_next_request_can_leave_as_an_answer_is_seen_to_end() -> None:
    schedule = closed_slice(1, asks(), requests=2, slice_ns=0)
    assert isinstance(schedule, SeesEnds)
    schedule.due(0)
    assert schedule.take(5) is not None
    assert schedule.take(6) is None
