"""The closed loop of batches, and drawing lengths, in virtual time."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.record.request import Request
from twinlens.schedule.draw import sample_length
from twinlens.schedule.lockstep import LockstepLoop
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.workload.length import Fixed, Length, Lognormal, Uniform


def answered(scheduled: ScheduledRequest, at_ns: int, takes_ns: int) -> Request:
    end_ns = at_ns + takes_ns
    return Request(
        scheduled.group,
        scheduled.intended_ns,
        at_ns,
        (end_ns,),
        (1,),
        end_ns,
        scheduled.input_tokens,
        scheduled.output_tokens,
    )


def played(schedule: LockstepLoop, takes_ns: list[int]) -> list[tuple[ScheduledRequest, ...]]:
    """What it hands out to a server whose i-th batch takes `takes_ns[i % n]`."""
    now_ns, batches = 0, list[tuple[ScheduledRequest, ...]]()
    while asks := schedule.due(now_ns):
        assert schedule.due(now_ns) == (), "each is handed out once"
        assert schedule.next_due_ns() is None, "nothing is due while a batch runs"
        batches.append(asks)
        took = takes_ns[(len(batches) - 1) % len(takes_ns)]
        for scheduled in asks:
            schedule.done(answered(scheduled, now_ns, took))
        now_ns += took
    return batches


@given(
    st.integers(1, 8),
    st.integers(0, 500),
    st.integers(0, 60),
    st.lists(st.integers(1, 90), min_size=1, max_size=9),
    st.integers(0, 5),
)
def test_each_ask_is_handed_out_once_until_time_and_rows_are_enough(
    batch: int, until_ns: int, least: int, takes_ns: list[int], first_group: int
) -> None:
    uniform = Uniform(kind="uniform", min=1, max=9)
    schedule = LockstepLoop(
        batch, uniform, uniform, until_ns=until_ns, min_requests=least, seed=1, first_group=first_group
    )
    batches = played(schedule, takes_ns)
    asks = [scheduled for one in batches for scheduled in one]
    assert [scheduled.number for scheduled in asks] == list(range(len(asks)))
    assert all(len(one) == batch and len({a.intended_ns for a in one}) == 1 for one in batches)
    assert [one[0].group for one in batches] == list(range(first_group, first_group + len(batches)))
    assert schedule.groups == first_group + len(batches)
    assert len({scheduled.seed for scheduled in asks}) == len(asks), "no two requests share a prompt"
    for one in batches:
        assert len({(scheduled.input_tokens, scheduled.output_tokens) for scheduled in one}) == 1
    spent = [takes_ns[i % len(takes_ns)] for i in range(len(batches))]
    enough = lambda n: sum(spent[:n]) >= until_ns and n * batch >= least  # noqa: E731
    assert enough(len(batches))
    assert not batches or not enough(len(batches) - 1)
    assert schedule.next_due_ns() is None


def test_a_continuation_asks_for_what_was_not_asked_before() -> None:
    lengths = (Fixed(value=4), Fixed(value=2))
    first = LockstepLoop(2, *lengths, until_ns=0, min_requests=4, seed=3)
    before = [scheduled.seed for one in played(first, [5]) for scheduled in one]
    second = LockstepLoop(2, *lengths, until_ns=0, min_requests=4, seed=3, first_group=first.groups)
    after = [scheduled.seed for one in played(second, [5]) for scheduled in one]
    assert len(set(before + after)) == 8


def test_images_have_no_lengths() -> None:
    (one,) = played(LockstepLoop(2, None, None, until_ns=0, min_requests=2, seed=0), [1])
    assert [(scheduled.input_tokens, scheduled.output_tokens) for scheduled in one] == [(0, 0), (0, 0)]


def test_other_seeds_ask_for_other_prompts() -> None:
    seeds = [LockstepLoop(1, None, None, until_ns=1, min_requests=1, seed=seed).due(0)[0].seed for seed in range(50)]
    assert len(set(seeds)) == 50


lengths: st.SearchStrategy[Length] = st.one_of(
    st.builds(Fixed, value=st.integers(1, 99)),
    st.tuples(st.integers(1, 99), st.integers(0, 99)).map(lambda p: Uniform(kind="uniform", min=p[0], max=sum(p))),
    st.builds(
        Lognormal, kind=st.just("lognormal"), mean=st.floats(0.1, 500), cv=st.floats(0.01, 5), max=st.integers(1, 999)
    ),
)


@given(lengths, st.integers(0, 9999))
def test_a_length_is_at_least_one_and_at_most_its_maximum(length: Length, seed: int) -> None:
    drawn = sample_length(length, np.random.default_rng(seed))
    assert type(drawn) is int
    assert 1 <= drawn <= length.max
    if isinstance(length, Uniform):
        assert drawn >= length.min


def test_lengths_have_the_mean_and_spread_they_say() -> None:
    rng = np.random.default_rng(0)
    drawn = [sample_length(Lognormal(kind="lognormal", mean=200, cv=0.5, max=10**6), rng) for _ in range(20_000)]
    assert statistics.mean(drawn) == pytest.approx(200, rel=0.02)
    assert statistics.stdev(drawn) / statistics.mean(drawn) == pytest.approx(0.5, rel=0.05)
    uniform = [sample_length(Uniform(kind="uniform", min=3, max=5), rng) for _ in range(3000)]
    assert set(uniform) == {3, 4, 5}
    assert statistics.mean(uniform) == pytest.approx(4, abs=4 * math.sqrt(2 / 3 / 3000))


def test_what_is_over_when_asked_is_over_when_waited_for() -> None:
    """The time can run out between the end of the last batch and the next question: nobody may then wait for ever."""
    schedule = LockstepLoop(1, Fixed(value=4), Fixed(value=2), until_ns=100, min_requests=1, seed=0)
    (scheduled,) = schedule.due(0)
    schedule.done(answered(scheduled, 0, 99))
    assert schedule.next_due_ns() == 99
    assert schedule.due(101) == ()
    assert schedule.next_due_ns() is None
