"""One load for several clients: together they play all of it, nothing twice, and what a lost one owed is known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from material import fixed, inference, spec_of
from twinlens.errors import BadInput
from twinlens.record.request import Request
from twinlens.schedule.build import planned_load
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of
from twinlens.schedule.split import LostClientSchedule, Share, is_closed, refuse_unshared, shared_schedule
from twinlens.spec.study import RunSpec

SECOND = 1_000_000_000
SESSIONS = {"turns": {"kind": "uniform", "min": 1, "max": 4}, "think_s": 0.2}


def asked(**parts: Any) -> RunSpec:
    data = {"options": {"url": "http://127.0.0.1:9/v1"}, "protocol": {"duration_s": 2.0, "min_rows": 1}} | parts
    return spec_of(inference("openai-http", **data))


def poisson(rate_per_s: float = 20.0, **parts: Any) -> RunSpec:
    return asked(arrival={"kind": "poisson"}, point={"rate_per_s": rate_per_s}, **parts)


def closed(concurrency: int, **parts: Any) -> RunSpec:
    return asked(arrival={"kind": "closed"}, point={"concurrency": concurrency}, **parts)


def played(
    schedule: Schedule, takes_ns: int, until_ns: int | None = None
) -> tuple[list[ScheduledRequest], list[Request]]:
    """Every answer takes as long; stops (as a killed client does) at `until_ns`. What was asked, and what had ended."""
    running: list[tuple[int, ScheduledRequest]] = []
    asks, rows = [], []
    now_ns = 0
    while True:
        for scheduled in schedule.due(now_ns):
            asks.append(scheduled)
            running.append((scheduled.intended_ns + takes_ns, scheduled))
        times = [end_ns for end_ns, _ in running] + [
            due_ns for due_ns in [schedule.next_due_ns()] if due_ns is not None
        ]
        if not times or (until_ns is not None and min(times) > until_ns):
            return asks, rows
        now_ns = min(times)
        for end_ns, scheduled in sorted((one for one in running if one[0] <= now_ns), key=lambda one: one[0]):
            running.remove((end_ns, scheduled))
            row = request_of(
                scheduled, sent_ns=scheduled.intended_ns, chunk_ns=(end_ns,), chunk_tokens=(6,), end_ns=end_ns
            )
            rows.append(row)
            schedule.done(row)


def shares(spec: RunSpec, count: int) -> list[Schedule]:
    plan = planned_load(spec).plan
    return [shared_schedule(spec, plan, Share(index, count)) for index in range(count)]


@pytest.mark.parametrize("parts", [{}, {"sessions": SESSIONS}, {"prefix": {"tokens": 8, "count": 3}}])
@given(count=st.integers(1, 7))
def test_the_parts_of_an_open_loop_are_the_whole_of_it(parts: dict[str, Any], count: int) -> None:
    spec = poisson(**parts)
    whole, _ = played(planned_load(spec).schedule, SECOND // 10)
    found = [scheduled for part in shares(spec, count) for scheduled in played(part, SECOND // 10)[0]]
    assert sorted(found, key=lambda scheduled: scheduled.number) == sorted(
        whole, key=lambda scheduled: scheduled.number
    )


@given(count=st.integers(1, 7), concurrency=st.integers(7, 20))
def test_the_parts_of_a_closed_loop_have_its_slots_and_share_no_ask(count: int, concurrency: int) -> None:
    spec = closed(concurrency)
    parts = shares(spec, count)
    assert sum(len(part.due(0)) for part in parts) == concurrency
    asks = [scheduled for part in shares(spec, count) for scheduled in played(part, SECOND // 3)[0]]
    assert len({scheduled.number for scheduled in asks}) == len(asks)
    assert len({scheduled.seed for scheduled in asks}) == len(asks)


def test_sessions_of_a_closed_loop_stay_with_one_client() -> None:
    parts = shares(closed(4, sessions=SESSIONS), 2)
    sessions = [{scheduled.session for scheduled in played(part, SECOND // 10)[0]} for part in parts]
    assert all(sessions)
    assert not sessions[0] & sessions[1]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (asked(arrival={"kind": "poisson"}, point={"rate_per_s": 5, "admission": "static", "batch": 4}), "one gate"),
        (
            asked(arrival={"kind": "poisson"}, point={"rate_per_s": 5, "admission": "continuous", "in_flight": 4}),
            "gate",
        ),
        (asked(arrival={"kind": "single-stream"}), "one request in flight"),
        (closed(2), "concurrency of 2"),
    ],
)
def test_a_load_that_one_client_only_can_play_is_refused(spec: RunSpec, why: str) -> None:
    refuse_unshared(spec, 1)
    with pytest.raises(BadInput, match=why) as refused:
        refuse_unshared(spec, 3)
    assert refused.value.code == "TL202"


def test_continuous_admission_without_a_limit_can_be_split_and_says_when_it_let_go() -> None:
    spec = asked(arrival={"kind": "poisson"}, point={"rate_per_s": 20, "admission": "continuous"})
    asks, _ = played(shares(spec, 2)[1], SECOND // 10)
    assert asks
    assert all(scheduled.released_ns == scheduled.intended_ns for scheduled in asks)


@pytest.mark.parametrize("parts", [{}, {"sessions": SESSIONS}])
@given(lost_ns=st.integers(0, 3 * SECOND), takes_ns=st.integers(1, SECOND))
def test_every_ask_of_a_lost_client_has_one_row(parts: dict[str, Any], lost_ns: int, takes_ns: int) -> None:
    spec = poisson(**parts)
    _, rows = played(shares(spec, 2)[0], takes_ns, until_ns=lost_ns)
    remaining = LostClientSchedule(shares(spec, 2)[0], rows, lost_ns, "client 0 was lost", closed=is_closed(spec))
    failed = remaining.due(lost_ns)
    while (at_ns := remaining.next_due_ns()) is not None:
        assert at_ns >= lost_ns
        failed += remaining.due(at_ns)
    assert remaining.count == len(failed)
    if not parts:  # how many turns of a session are asked in time depends on how long answers took
        whole, _ = played(shares(spec, 2)[0], takes_ns)
        assert sorted(row.group for row in [*rows, *failed]) == [scheduled.number for scheduled in whole]
    numbers = [row.group for row in [*rows, *failed]]
    assert len(set(numbers)) == len(numbers)
    assert all(lost_ns <= row.end_ns and row.intended_ns <= row.sent_ns <= row.end_ns for row in failed)
    assert {(row.outcome, row.error) for row in failed} <= {("failed", "client 0 was lost")}


@given(lost_ns=st.integers(0, SECOND), takes_ns=st.integers(10_000_000, SECOND))
def test_a_closed_loop_loses_what_was_under_way_and_no_more(lost_ns: int, takes_ns: int) -> None:
    spec = closed(5, output_tokens=fixed(6))
    asks, rows = played(shares(spec, 2)[0], takes_ns, until_ns=lost_ns)
    remaining = LostClientSchedule(shares(spec, 2)[0], rows, lost_ns, "gone", closed=is_closed(spec))
    failed = remaining.due(lost_ns)
    assert {row.group for row in failed} == {scheduled.number for scheduled in asks} - {row.group for row in rows}
    assert len(failed) == 3  # slots 0, 2 and 4 of five
    assert remaining.next_due_ns() is None
    assert remaining.due(10 * SECOND) == []
