"""Closed loops: so many in flight, each end starts the next."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from twinlens.record.request import Request
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.draw import endless_requests
from twinlens.schedule.request import ScheduledRequest, request_of
from twinlens.spec.workload.workload import InferenceWorkload

ASKS = [ScheduledRequest(i, i, 0, 8, 4, (0, i)) for i in range(6)]


def ended(scheduled: ScheduledRequest, end_ns: int) -> Request:
    return request_of(scheduled, sent_ns=scheduled.intended_ns, chunk_ns=(end_ns,), chunk_tokens=(4,), end_ns=end_ns)


def test_the_next_request_is_intended_at_the_moment_at_which_one_ends() -> None:
    loop = ClosedLoop(2, ASKS)
    first, second = loop.due(5)
    assert (first.intended_ns, second.intended_ns) == (0, 0)
    assert loop.due(10**9) == ()
    assert loop.next_due_ns() is None
    loop.done(ended(second, 40))
    loop.done(ended(first, 30))  # reported late: the slot has been free since 30
    assert loop.next_due_ns() == 30
    assert [scheduled.intended_ns for scheduled in loop.due(100)] == [30, 40]


def test_a_slot_that_was_refused_rests_before_it_asks_again() -> None:
    loop = ClosedLoop(2, ASKS)
    first, second = loop.due(0)
    loop.done(replace(ended(first, 40), outcome="refused", error="connection refused"))
    loop.done(ended(second, 50))
    assert [scheduled.intended_ns for scheduled in loop.due(60)] == [50]
    assert loop.next_due_ns() == 40 + 100_000_000


def test_one_stream_has_one_request_in_flight_at_a_time() -> None:
    loop, now_ns, seen = ClosedLoop(1, ASKS), 0, []
    while due := loop.due(now_ns):
        (scheduled,) = due
        seen.append(scheduled.number)
        now_ns += 7
        loop.done(ended(scheduled, now_ns))
    assert seen == [0, 1, 2, 3, 4, 5]
    assert loop.next_due_ns() is None


def test_a_closed_loop_ends_when_its_time_is_up_but_not_before_it_has_enough() -> None:
    workload = InferenceWorkload(kind="inference", model="tiny")
    loop = ClosedLoop(1, endless_requests(workload, seed=1, prompt_seed=2), until_ns=25, min_requests=4)
    now_ns = count = 0
    while due := loop.due(now_ns):
        now_ns, count = now_ns + 10, count + 1
        loop.done(ended(due[0], now_ns))
    assert (count, now_ns) == (4, 40)


def test_endless_asks_go_on_where_a_run_left_off() -> None:
    workload = InferenceWorkload(kind="inference", model="tiny")
    whole = list(islice(endless_requests(workload, seed=1, prompt_seed=2), 2000))
    rest = list(islice(endless_requests(workload, seed=1, prompt_seed=2, first=700), 1300))
    assert whole[700:] == rest
    assert len({scheduled.seed for scheduled in whole}) == 2000
