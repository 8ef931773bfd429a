"""Loops of rollouts and steps: worked by hand, against the closed forms, and what age may never be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.simulation.training.rollouts import Loop, trained
from twinlens.theory.waiting.shared import age_updates, cycle_s, updates_per_s

ROLLOUTS = np.random.default_rng(0).gamma(2.0, 1.5, 5000)  # 3 s on average


def test_a_synchronous_loop_by_hand() -> None:
    """Two slots, batches of three of 2, 1 and 3 s: 0–2, 0–1, 1–4; a step of 1 s and 0.5 s to load: 5.5 s a cycle."""
    found = trained(Loop(2, 3, 1.0, 0.5), np.array([2.0, 1.0, 3.0]), 3)
    assert found.begin_s.tolist() == [0, 0, 1, 5.5, 5.5, 6.5, 11, 11, 12]
    assert found.done_s.tolist() == [5, 10.5, 16]
    assert found.age.tolist() == [0] * 9
    steps = trained(Loop(2, 3, 1.0, 0.5), np.array([2.0, 1.0, 3.0]), 3, np.array([1.0, 2.0]))
    assert steps.done_s.tolist() == [5, 11.5, 17]
    assert 1 / found.updates_per_s == pytest.approx(5.5)


def test_rollouts_alike_make_a_cycle_of_theirs_and_the_step() -> None:
    found = trained(Loop(4, 4, 1.0), np.array([3.0]), 10)
    assert 1 / found.updates_per_s == pytest.approx(cycle_s(3.0, 1.0))
    assert found.training_share == pytest.approx(1 / 4, rel=0.2)


@pytest.mark.parametrize("train_s", [0.5, 3.0, 5.5])
def test_where_training_waits_the_rate_and_the_age_are_those_of_theory(train_s: float) -> None:
    """16 slots of 3 s give 5.33 samples/s, a batch of 32 in 6 s."""
    found = trained(Loop(16, 32, train_s, ahead=None), ROLLOUTS, 800)
    per_s = 16 / ROLLOUTS.mean()
    assert found.updates_per_s == pytest.approx(float(updates_per_s(32 / per_s, train_s)), rel=0.01)
    late = found.update > 100
    assert found.age[late].mean() == pytest.approx(float(age_updates(16, 32, train_s, per_s)), rel=0.02)


def test_where_rollouts_wait_training_never_does_and_the_age_is_the_most_allowed() -> None:
    """Batches are ready every 6 s at most and steps take 12: each sample waits until it is two updates old."""
    found = trained(Loop(16, 32, 12.0, ahead=2), ROLLOUTS, 300)
    assert found.updates_per_s == pytest.approx(float(updates_per_s(6.0, 12.0)), rel=1e-6)
    assert found.training_share == pytest.approx(1.0)
    assert found.age[found.update > 10].mean() == pytest.approx(2.0)


def test_beside_each_other_is_never_slower_than_in_turn() -> None:
    rates = [trained(Loop(8, 16, 4.0, 0.5, ahead=age), ROLLOUTS, 200).updates_per_s for age in (0, 1, 4)]
    assert rates == sorted(rates)
    rollouts_s = 16 / 8 * ROLLOUTS.mean()
    assert rates[0] < 1 / float(cycle_s(rollouts_s, 4.5))  # the last of a batch is waited for with idle slots
    assert rates[2] == pytest.approx(1 / rollouts_s, rel=0.02)


@settings(max_examples=30)
@given(
    st.integers(1, 6), st.integers(1, 6), st.floats(0.1, 5.0), st.floats(0.0, 12.0), st.integers(0, 3),
    st.lists(st.floats(0.1, 5.0), min_size=1, max_size=12),
)  # fmt: skip
def test_each_sample_is_used_once_and_on_average_no_older_than_allowed(
    slots: int, batch: int, train_s: float, load_s: float, ahead: int, lasts: list[float]
) -> None:
    found = trained(Loop(slots, batch, train_s, load_s, ahead), np.array(lasts), 8)
    assert np.bincount(found.update).tolist() == [batch] * 8
    assert found.age.min() >= 0
    assert found.age.mean() <= ahead + 1e-9
    assert (found.end_s <= found.step_s[found.update] + 1e-9).all()
    assert (found.step_s[1:] >= found.done_s[:-1] - 1e-9).all()
    moments = np.concatenate([found.begin_s, found.end_s])
    busy = np.cumsum(
        np.repeat([1, -1], len(found.begin_s))[np.lexsort((np.repeat([1, 0], len(found.begin_s)), moments))]
    )
    assert busy.max() <= slots


@pytest.mark.parametrize(
    ("loop", "rollout_s", "told"),
    [
        (Loop(0, 1, 1.0), [1.0], "at least one slot"),
        (Loop(1, 1, 0.0), [1.0], "a step takes seconds above 0"),
        (Loop(1, 1, 1.0, ahead=-1), [1.0], "ahead is 0 or more"),
        (Loop(1, 1, 1.0), [], "rollouts take seconds above 0"),
        (Loop(1, 1, 1e9, ahead=None), [1.0], "samples wait without end"),
    ],
)
def test_loops_that_cannot_be_are_refused(loop: Loop, rollout_s: list[float], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        trained(loop, np.array(rollout_s), 2)
