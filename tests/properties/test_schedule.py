"""Schedules under any interleaving of time passing and requests ending: nothing is lost, doubled or moved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from twinlens.clock import VirtualClock
from twinlens.schedule.admission import BatchAdmission, Continuous, held
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.conversation import Conversation, session_requests
from twinlens.schedule.draw import single_requests
from twinlens.schedule.open_loop import OpenLoop, arrival_times_ns
from twinlens.schedule.plan import NONE, Plan
from twinlens.schedule.prompt import SyntheticWords, prompt_text
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of
from twinlens.spec.workload.arrival import Arrival, Constant, Gamma, Poisson, Ramp
from twinlens.spec.workload.length import Uniform
from twinlens.spec.workload.prompt import Prefix, Sessions
from twinlens.spec.workload.workload import InferenceWorkload

SHORT = Uniform(kind="uniform", min=1, max=9)
times = st.lists(st.integers(0, 200), max_size=25).map(sorted)
gates = st.sampled_from(["none", "static", "dynamic", "continuous", "limited"])


def planned(starts: list[int], *, sessions: bool) -> Plan:
    talks = Sessions(turns=Uniform(kind="uniform", min=1, max=4), think_s=2e-8)
    workload = InferenceWorkload(
        kind="inference",
        model="tiny",
        input_tokens=SHORT,
        output_tokens=SHORT,
        prefix=Prefix(tokens=5, count=3, share=0.5),
        sessions=talks if sessions else None,
    )
    draw = session_requests if sessions else single_requests
    return draw(workload, np.array(starts, dtype=np.int64), seed=1, prompt_seed=2)


class Playing(RuleBasedStateMachine):
    """A schedule behind a gate, a clock that jumps, and requests that end in any order."""

    @initialize(starts=times, loop=st.sampled_from(["open", "closed", "talk", "users"]), gate=gates, data=st.data())
    def begin(self, starts: list[int], loop: str, gate: str, data: st.DataObject) -> None:
        self.plan = planned(starts, sessions=loop in ("talk", "users"))
        self.users = data.draw(st.integers(1, 4)) if loop in ("closed", "users") else None
        self.size, self.timeout_ns = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 60))
        self.gate = gate
        self.schedule = self._gated(self._loop(loop))
        self.clock, self.running = VirtualClock(), dict[int, ScheduledRequest]()
        self.went: dict[int, ScheduledRequest] = {}
        self.ended: dict[int, int] = {}

    def _loop(self, loop: str) -> Schedule:
        if loop == "open":
            return OpenLoop(self.plan)
        if loop == "closed":
            return ClosedLoop(self.users or 1, self.plan)
        return Conversation([self.plan], self.users)

    def _gated(self, loop: Schedule) -> Schedule:
        if self.gate == "static":
            return BatchAdmission(loop, self.size)
        if self.gate == "dynamic":
            return BatchAdmission(loop, self.size, self.timeout_ns)
        return loop if self.gate == "none" else Continuous(loop, self.size if self.gate == "limited" else None)

    @rule(jump_ns=st.integers(0, 80))
    def let_time_pass(self, jump_ns: int) -> None:
        self.clock.advance_ns(jump_ns)
        self._take()

    @precondition(lambda self: self.schedule.next_due_ns() is not None)
    @rule()
    def wait_for_the_next(self) -> None:
        said_ns = self.schedule.next_due_ns() or 0
        self.clock.sleep_until_ns(said_ns)
        if not self._take():  # only a gate may hold back what is due, and then it says when to look again
            assert self.gate in ("static", "dynamic")
            later_ns = self.schedule.next_due_ns()
            assert later_ns is None or later_ns > self.clock.now_ns()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end_one(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.running)))
        # The end is stamped by the kernel, perhaps before the loop looked at its clock, never before the start.
        self._end(number, self.clock.now_ns() - data.draw(st.integers(0, 3)))

    def _end(self, number: int, at_ns: int) -> None:
        scheduled = self.running.pop(number)
        end_ns = max(at_ns, scheduled.intended_ns, scheduled.released_ns or 0)
        self.clock.sleep_until_ns(end_ns)
        self.ended[number] = end_ns
        self.schedule.done(request_of(scheduled, sent_ns=end_ns, chunk_ns=(), chunk_tokens=(), end_ns=end_ns))

    def _take(self) -> tuple[ScheduledRequest, ...]:
        now_ns = self.clock.now_ns()
        asks = self.schedule.due(now_ns)
        batch_before = [scheduled for number, scheduled in self.went.items() if number in self.running]
        for scheduled in asks:
            assert scheduled.number not in self.went
            self._check_time(scheduled, now_ns)
            self.went[scheduled.number] = self.running[scheduled.number] = scheduled
        if asks and self.gate in ("static", "dynamic"):
            self._check_batch(asks, batch_before)
        return asks

    def _check_time(self, scheduled: ScheduledRequest, now_ns: int) -> None:
        assert 0 <= scheduled.intended_ns <= now_ns
        asked = self.plan[scheduled.number]
        if asked.intended_ns != NONE and self.users is None:
            assert scheduled.intended_ns == asked.intended_ns  # holding back does not move what was intended
        assert (scheduled.released_ns is None) == (self.gate == "none")
        assert scheduled.released_ns is None or scheduled.intended_ns <= scheduled.released_ns <= now_ns
        assert replace(scheduled, group=0, intended_ns=0, released_ns=None) == replace(asked, group=0, intended_ns=0)
        if scheduled.turn:
            assert self.plan.think_ns is not None
            assert scheduled.intended_ns == self.ended[scheduled.number - 1] + int(self.plan.think_ns[scheduled.number])

    def _check_batch(self, asks: tuple[ScheduledRequest, ...], before: list[ScheduledRequest]) -> None:
        assert before == []  # one batch at a time, whole
        assert len(asks) <= self.size
        assert len({(scheduled.group, scheduled.released_ns) for scheduled in asks}) == 1
        if self.gate == "dynamic":
            free_ns = max((end for number, end in self.ended.items()), default=0)
            oldest_ns = min(scheduled.intended_ns for scheduled in asks)
            assert asks[0].released_ns is not None
            assert asks[0].released_ns <= max(free_ns, oldest_ns + self.timeout_ns)
        elif len(asks) < self.size:  # short only because none could come before these are done
            assert self.schedule.next_due_ns() is None

    @invariant()
    def no_more_run_at_once_than_may(self) -> None:
        if not hasattr(self, "running"):
            return
        if self.users is not None:
            assert len(self.running) <= self.users
        if self.gate in ("static", "dynamic", "limited"):
            assert len(self.running) <= self.size

    def teardown(self) -> None:
        """Play on to the end: everything has been handed out once, in finite time."""
        if not hasattr(self, "running"):
            return
        for _ in range(4 * len(self.plan) + 4):
            if self.running:
                self._end(min(self.running), self.clock.now_ns() + 1)
            elif (at_ns := self.schedule.next_due_ns()) is not None:
                self.clock.sleep_until_ns(at_ns)
            self._take()
        assert self.schedule.next_due_ns() is None
        assert sorted(self.went) == list(range(len(self.plan)))
        self._check_parts()

    def _check_parts(self) -> None:
        if self.gate not in ("static", "dynamic") or not self.went:
            return
        rows = [(a.group, a.intended_ns, a.released_ns, self.ended[n]) for n, a in sorted(self.went.items())]
        group, intended, released, ends = (np.array(column) for column in zip(*rows, strict=True))
        parts = held(group, intended, released, ends, self.size)
        assert (parts.queued_ns + parts.blocked_ns + parts.gathering_ns == released - intended).all()
        assert min(parts.queued_ns.min(), parts.blocked_ns.min(), parts.gathering_ns.min()) >= 0


TestPlaying = Playing.TestCase
TestPlaying.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)

arrivals = st.one_of(
    st.just(Constant()),
    st.just(Poisson()),
    st.floats(0.1, 5).map(lambda cv: Gamma(cv=cv)),
    st.tuples(st.floats(0, 50), st.floats(0.01, 50)).map(lambda r: Ramp(from_per_s=r[0], to_per_s=r[1])),
)


@given(arrivals, st.floats(0.01, 500), st.floats(0.001, 20), st.integers(0, 2**31))
@settings(max_examples=150, deadline=None)
def test_deadlines_rise_lie_within_the_duration_and_are_the_same_again(
    arrival: Arrival, rate: float, seconds: float, seed: int
) -> None:
    found = arrival_times_ns(arrival, rate, seconds, seed)
    assert found.dtype == np.int64
    assert (np.diff(found) >= 0).all()
    assert found.size == 0 or (found[0] >= 0 and found[-1] < seconds * 1e9)
    assert (found == arrival_times_ns(arrival, rate, seconds, seed)).all()


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(1, 40))
@settings(max_examples=50, deadline=None)
def test_different_prompt_seeds_share_no_beginning(one: int, other: int, count: int) -> None:
    words = SyntheticWords()
    starts = np.zeros(count, dtype=np.int64)
    workload = InferenceWorkload(kind="inference", model="tiny")
    plans = [single_requests(workload, starts, seed=1, prompt_seed=seed) for seed in {one, other}]
    begins = [prompt_text(scheduled, words)[:60] for plan in plans for scheduled in plan]
    assert len(set(begins)) == len(begins)
