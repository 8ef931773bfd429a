"""Sessions of several turns: when a turn is due, what it holds, and how many talk at once."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from twinlens.schedule.conversation import Conversation, endless_sessions, session_requests
from twinlens.schedule.plan import NONE, Plan
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of
from twinlens.spec.workload.length import Fixed, Uniform
from twinlens.spec.workload.prompt import Prefix, Sessions
from twinlens.spec.workload.workload import InferenceWorkload

SECOND = 10**9


def talking(**sessions: object) -> InferenceWorkload:
    fields: dict[str, object] = {"turns": Fixed(value=3), "think_s": 2.0, "think_cv": 0.0} | sessions
    return InferenceWorkload(
        kind="inference",
        model="tiny",
        input_tokens=Fixed(value=10),
        output_tokens=Fixed(value=5),
        prefix=Prefix(tokens=100),
        sessions=Sessions(**fields),  # type: ignore[arg-type]
    )


def planned(workload: InferenceWorkload, starts_ns: list[int], seed: int = 1) -> Plan:
    return session_requests(workload, np.array(starts_ns, dtype=np.int64), seed=seed, prompt_seed=9)


def played(schedule: Schedule, takes_ns: int, until_ns: int = 10**15) -> list[tuple[ScheduledRequest, int]]:
    """Everything handed out by a server that takes equally long for each, and when it ended, in virtual time."""
    ends: list[tuple[int, int, ScheduledRequest]] = []
    found: list[tuple[ScheduledRequest, int]] = []
    while True:
        due_ns = schedule.next_due_ns()
        if due_ns is not None and (not ends or due_ns <= ends[0][0]) and due_ns < until_ns:
            for scheduled in schedule.due(due_ns):
                heapq.heappush(ends, (due_ns + takes_ns, scheduled.number, scheduled))
        elif ends:
            end_ns, _, scheduled = heapq.heappop(ends)
            found.append((scheduled, end_ns))
            schedule.done(
                request_of(scheduled, sent_ns=scheduled.intended_ns, chunk_ns=(), chunk_tokens=(), end_ns=end_ns)
            )
        else:
            return found


def test_a_turn_is_due_when_the_one_before_has_ended_and_its_user_has_thought() -> None:
    times = [
        (scheduled.session, scheduled.turn, scheduled.intended_ns)
        for scheduled, _ in played(Conversation([planned(talking(), [0])]), 7)
    ]
    assert times == [(0, 0, 0), (0, 1, 7 + 2 * SECOND), (0, 2, 14 + 4 * SECOND)]


def test_a_prompt_grows_by_what_was_said() -> None:
    asks = list(planned(talking(), [0]))
    assert [scheduled.input_tokens for scheduled in asks] == [110, 125, 140]
    assert [scheduled.history for scheduled in asks] == [(10,), (10, 5, 10), (10, 5, 10, 5, 10)]
    assert [scheduled.prefix_tokens for scheduled in asks] == [100, 100, 100]
    assert len({scheduled.seed for scheduled in asks}) == 1


def test_sessions_arrive_when_they_are_meant_to_whatever_others_do() -> None:
    starts = [0, 3 * SECOND, 3 * SECOND, 8 * SECOND]
    seen = played(Conversation([planned(talking(), starts)]), 100 * SECOND)
    assert [
        scheduled.intended_ns for scheduled, _ in sorted(seen, key=lambda one: one[0].number) if scheduled.turn == 0
    ] == starts
    assert len(seen) == 12


def test_a_closed_loop_of_sessions_has_so_many_users() -> None:
    schedule = Conversation([planned(talking(turns=Fixed(value=2)), [0] * 5)], concurrency=2)
    seen = played(schedule, SECOND)
    at_once = [
        sum(scheduled.intended_ns <= i < end for scheduled, end in seen) for i in range(0, 20 * SECOND, SECOND // 2)
    ]
    assert max(at_once) == 2
    first_turns = sorted(scheduled.intended_ns for scheduled, _ in seen if scheduled.turn == 0)
    assert first_turns == [0, 0, 4 * SECOND, 4 * SECOND, 8 * SECOND]  # 1 s, 2 s of thought, 1 s


def test_nothing_is_asked_after_its_time_is_up() -> None:
    schedule = Conversation(endless_sessions(talking(), seed=1, prompt_seed=9), 3, until_ns=60 * SECOND)
    seen = played(schedule, SECOND)
    assert max(scheduled.intended_ns for scheduled, _ in seen) < 60 * SECOND
    # A session takes 1 + 2 + 1 + 2 + 1 s: eight whole ones and the turns at 56 and 59 s, for each of three users.
    assert len({scheduled.number for scheduled, _ in seen}) == len(seen) == 3 * (8 * 3 + 2)


def test_endless_sessions_are_numbered_through() -> None:
    plans = endless_sessions(talking(turns=Uniform(kind="uniform", min=1, max=5)), seed=1, prompt_seed=9)
    first, second = next(plans), next(plans)
    assert second.first_number == len(first)
    assert second.session is not None
    assert second.session[0] == 64
    both = session_requests(
        talking(turns=Uniform(kind="uniform", min=1, max=5)), np.zeros(128, dtype=np.int64), seed=1, prompt_seed=9
    )
    assert list(both) == [*first, *second]


def test_thinking_follows_its_law() -> None:
    plan = planned(talking(turns=Fixed(value=50), think_s=3.0, think_cv=0.5), [0] * 100)
    assert plan.think_ns is not None
    thought = plan.think_ns[plan.think_ns != NONE] / SECOND
    assert len(thought) == 4900
    assert thought.mean() == pytest.approx(3, abs=0.1)
    assert thought.std() / thought.mean() == pytest.approx(0.5, abs=0.03)


def test_no_thinking_is_no_time() -> None:
    plan = planned(talking(think_s=0.0, think_cv=1.0), [0])
    assert plan.think_ns is not None
    assert plan.think_ns.tolist() == [NONE, 0, 0]


def test_a_session_ends_before_its_context_is_too_long_but_has_a_first_turn() -> None:
    # Prompt and answer: 115, 130, 145.
    assert len(planned(talking(max_context_tokens=144), [0])) == 2
    assert len(planned(talking(max_context_tokens=145), [0])) == 3
    assert len(planned(talking(max_context_tokens=1), [0])) == 1


def test_a_turn_that_failed_is_followed_by_the_next() -> None:
    schedule = Conversation([planned(talking(), [0])])
    (scheduled,) = schedule.due(0)
    failed = request_of(scheduled, sent_ns=0, chunk_ns=(), chunk_tokens=(), end_ns=5, output_tokens=0, outcome="failed")
    schedule.done(failed)
    assert schedule.next_due_ns() == 5 + 2 * SECOND


def test_a_plan_without_sessions_is_no_conversation() -> None:
    plan = Plan(1, *(np.zeros(2, dtype=np.int64) for _ in range(3)))
    with pytest.raises(ValueError, match="without sessions"):
        Conversation([plan])
