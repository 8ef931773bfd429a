"""Ways of batching in front of a server, on times small enough to follow by hand."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from twinlens.schedule.admission import BatchAdmission, Continuous, held
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.open_loop import OpenLoop
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of


def asks_at(*times_ns: int) -> list[ScheduledRequest]:
    return [ScheduledRequest(i, i, at_ns, 8, 4, (0, i)) for i, at_ns in enumerate(times_ns)]


def play(schedule: Schedule, takes_ns: list[int], late_ns: int = 0) -> list[tuple[ScheduledRequest, int]]:
    """What went, in order, and when it ended: ask i takes `takes_ns[i]`, and the client comes `late_ns` late."""
    ends: list[tuple[int, int, ScheduledRequest]] = []
    found: list[tuple[ScheduledRequest, int]] = []
    now_ns = 0
    while True:
        due_ns = schedule.next_due_ns()
        if due_ns is not None and (not ends or max(now_ns, due_ns + late_ns) <= ends[0][0]):
            now_ns = max(now_ns, due_ns + late_ns)
            for scheduled in schedule.due(now_ns):
                assert scheduled.released_ns is not None
                # Ends count from the release, so that a late client changes nothing that is checked here.
                heapq.heappush(ends, (scheduled.released_ns + takes_ns[scheduled.number], scheduled.number, scheduled))
        elif ends:
            end_ns, _, scheduled = heapq.heappop(ends)
            now_ns = max(now_ns, end_ns)
            found.append((scheduled, end_ns))
            schedule.done(request_of(scheduled, sent_ns=end_ns, chunk_ns=(), chunk_tokens=(), end_ns=end_ns))
        elif due_ns is None:
            return sorted(found, key=lambda one: one[0].number)


def released(seen: list[tuple[ScheduledRequest, int]]) -> list[tuple[int, int]]:
    return [(scheduled.group, scheduled.released_ns or 0) for scheduled, _ in seen]


@pytest.mark.parametrize("late_ns", [0, 3, 17])
def test_static_batches_wait_until_they_are_full_and_then_for_all_of_the_batch_before(late_ns: int) -> None:
    seen = play(BatchAdmission(OpenLoop(asks_at(0, 4, 5, 6, 50)), size=2), [10, 30, 10, 10, 10], late_ns)
    # 0 and 1 go at 4, the slower ends at 34, then 2 and 3; 4 is the last and goes alone, there is none to wait for.
    assert released(seen) == [(0, 4), (0, 4), (1, 34), (1, 34), (2, 50)]
    assert [scheduled.intended_ns for scheduled, _ in seen] == [0, 4, 5, 6, 50]


@pytest.mark.parametrize("late_ns", [0, 3, 17])
def test_dynamic_batches_wait_no_longer_than_the_timeout(late_ns: int) -> None:
    seen = play(BatchAdmission(OpenLoop(asks_at(0, 4, 12, 13, 14, 90)), 3, timeout_ns=10), [5] * 6, late_ns)
    # 0 and 1 time out at 10 and end at 15; 2, 3 and 4 are three by then; 5 times out alone at 100.
    assert released(seen) == [(0, 10), (0, 10), (1, 15), (1, 15), (1, 15), (2, 100)]


def test_a_dynamic_batch_goes_as_soon_as_it_is_full() -> None:
    seen = play(BatchAdmission(OpenLoop(asks_at(0, 4)), 2, timeout_ns=1000), [5, 5])
    assert released(seen) == [(0, 4), (0, 4)]


@pytest.mark.parametrize("late_ns", [0, 3])
def test_continuous_admission_lets_each_go_as_soon_as_a_slot_is_free(late_ns: int) -> None:
    seen = play(Continuous(OpenLoop(asks_at(0, 1, 2, 60)), limit=2), [50, 10, 10, 10], late_ns)
    assert [scheduled.released_ns for scheduled, _ in seen] == [0, 1, 11, 60]


def test_continuous_admission_without_a_limit_holds_nothing() -> None:
    gate = Continuous(OpenLoop(asks_at(0, 1, 2)))
    due = gate.due(500)
    assert [scheduled.released_ns for scheduled in due] == [0, 1, 2]  # what is late is the client, and shows as its lag
    assert gate.next_due_ns() is None


def test_a_closed_loop_smaller_than_the_batch_does_not_wait_for_ever() -> None:
    seen = play(BatchAdmission(ClosedLoop(2, asks_at(0, 0, 0)), size=8), [10, 20, 10])
    assert released(seen) == [(0, 0), (0, 0), (1, 20)]


def rows_of(seen: list[tuple[ScheduledRequest, int]], size: int):
    columns = [(a.group, a.intended_ns, a.released_ns, end) for a, end in seen]
    return held(*(np.array(column) for column in zip(*columns, strict=True)), size=size)


def test_what_held_an_ask_back_is_taken_apart() -> None:
    seen = play(BatchAdmission(OpenLoop(asks_at(0, 4, 5, 6, 50)), size=2), [10, 30, 10, 10, 10])
    # The first batch runs from 4: both slots are taken until 14, one is free but not given out until 34.
    parts = rows_of(seen, 2)
    assert parts.gathering_ns.tolist() == [4, 0, 0, 0, 0]
    assert parts.queued_ns.tolist() == [0, 0, 9, 8, 0]
    assert parts.blocked_ns.tolist() == [0, 0, 20, 20, 0]


def test_a_batch_that_was_not_full_blocks_from_its_start() -> None:
    seen = play(BatchAdmission(OpenLoop(asks_at(0, 12)), 2, timeout_ns=10), [20, 5])
    parts = rows_of(seen, 2)
    # The first goes alone at 10 and ends at 30: the second comes at 12 and could have joined it.
    assert parts.gathering_ns.tolist() == [10, 0]
    assert parts.queued_ns.tolist() == [0, 0]
    assert parts.blocked_ns.tolist() == [0, 18]


def test_no_rows_were_held_back_by_nothing() -> None:
    nothing = np.array([], dtype=np.int64)
    assert held(nothing, nothing, nothing, nothing, size=4).queued_ns.tolist() == []
