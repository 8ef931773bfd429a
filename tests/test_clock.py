"""Time as a value: real and virtual."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.clock import MonotonicClock, VirtualClock

moments = st.lists(st.integers(0, 10**18), max_size=20)


@given(st.integers(0, 10**18), moments)
def test_a_virtual_clock_goes_where_it_is_told_and_never_back(start_ns: int, deadlines: list[int]) -> None:
    clock, latest = VirtualClock(start_ns), start_ns
    for deadline_ns in deadlines:
        clock.sleep_until_ns(deadline_ns)
        latest = max(latest, deadline_ns)
        assert clock.now_ns() == latest


@given(moments)
def test_a_virtual_clock_adds_up_exactly(durations: list[int]) -> None:
    clock = VirtualClock()
    for duration_ns in durations:
        clock.advance_ns(duration_ns)
    assert clock.now_ns() == sum(durations)


def test_a_virtual_clock_refuses_to_step_back() -> None:
    with pytest.raises(ValueError, match="never steps back"):
        VirtualClock(5).advance_ns(-1)


def test_the_real_clock_wakes_after_its_deadline_and_not_before() -> None:
    clock = MonotonicClock()
    deadline_ns = clock.now_ns() + 5_000_000
    clock.sleep_until_ns(deadline_ns)
    assert clock.now_ns() >= deadline_ns
    begin_ns = time.monotonic_ns()
    clock.sleep_until_ns(deadline_ns)
    assert time.monotonic_ns() - begin_ns < 1_000_000_000, "what is past is not waited for"
