"""Runs over time: an account worked by hand, Daly's complete model, and what no failure may change."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.simulation.training.history import History, Plan, history
from twinlens.stats.wall_time import PARTS
from twinlens.theory.waiting.checkpoint import goodput


def plan(steps: int = 6, **more: Any) -> Plan:
    return Plan(np.full(steps, 2.0), np.full(steps, 0.5), **more)


def gone(asked: Plan, seed: int = 0) -> History:
    return history(asked, np.random.default_rng(seed))


def test_a_run_without_failures_by_hand() -> None:
    """Six steps of 2 s that wait 0.5 s, a save of 1 s after each two, a look of 3 s after four, 10 s to start."""
    found = gone(plan(save_every=2, save_s=1.0, evaluate_every=4, evaluate_s=3.0, startup_s=10.0))
    assert found.parts_s == dict.fromkeys(PARTS, 0.0) | {
        "useful": 12.0, "data": 3.0, "checkpoint": 3.0, "evaluation": 3.0, "startup": 10.0,
    }  # fmt: skip
    assert found.wall_s == 31.0
    assert found.first.tolist() == [0, 2, 4, 7]  # the look stands before the fifth step
    assert found.productive_fraction == pytest.approx(12 / 31)


def test_steps_left_after_the_last_whole_interval_end_with_a_save() -> None:
    found = gone(plan(5, save_every=2, save_s=1.0, evaluate_s=0))
    assert found.first.tolist() == [0, 2, 4, 5]
    assert found.parts_s["checkpoint"] == 3.0


@pytest.mark.parametrize(("save_s", "restart_s", "every"), [(5.0, 0.0, 50), (20.0, 30.0, 20), (1.0, 100.0, 200)])
def test_the_share_that_is_kept_is_that_of_dalys_complete_model(save_s: float, restart_s: float, every: int) -> None:
    steps, failure_s = 400 * every, 400.0
    asked = Plan(np.ones(steps), np.zeros(steps), every, save_s, failure_s=failure_s, restart_s=restart_s)
    shares = np.array([gone(asked, seed).productive_fraction for seed in range(60)])
    wanted = float(goodput(every, save_s, restart_s, failure_s))
    # The mean of 1/share is the expected wall time, which the model is exact for; five standard errors.
    slow = 1 / shares
    assert abs(slow.mean() - 1 / wanted) <= 5 * slow.std() / math.sqrt(slow.size)
    assert slow.std() / math.sqrt(slow.size) < 0.01 * slow.mean()


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    steps = draw(st.integers(1, 40))
    seconds = draw(st.lists(st.floats(0.1, 3.0), min_size=steps, max_size=steps).map(np.array))
    return Plan(
        seconds, draw(st.floats(0.0, 1.0)) * seconds, draw(st.integers(0, 9)), draw(st.floats(0.0, 2.0)),
        draw(st.integers(0, 7)), draw(st.floats(0.1, 2.0)), draw(st.floats(20.0, 1e4)), draw(st.floats(0.0, 5.0)),
    )  # fmt: skip


@settings(max_examples=50)
@given(plans(), st.integers(0, 100))
def test_failures_only_add_and_every_second_has_one_part(asked: Plan, seed: int) -> None:
    found, parts = gone(asked, seed), gone(asked, seed).parts_s
    calm = gone(Plan(asked.step_s, asked.data_s, asked.save_every, asked.save_s, asked.evaluate_every,
                     asked.evaluate_s))  # fmt: skip
    assert parts["useful"] == calm.parts_s["useful"]
    assert parts["checkpoint"] == calm.parts_s["checkpoint"]
    assert min(parts.values()) >= -1e-9
    assert found.wall_s == pytest.approx(calm.wall_s + float(found.lost_s.sum() + found.down_s.sum()))
    assert (found.done < found.first[found.stretch + 1] - found.first[found.stretch]).all()
    assert gone(asked, seed).wall_s == found.wall_s


def test_a_run_that_failures_keep_from_ending_is_refused() -> None:
    with pytest.raises(BadInput, match=r"with a failure every 0\.5 s a run that saves every 15 s .* does not end"):
        gone(plan(failure_s=0.5))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Plan(np.zeros(0), np.zeros(0)), "a training run has a step"),
        (Plan(np.array([math.nan]), np.zeros(1)), "a step takes seconds above 0"),
        (Plan(np.ones(1), np.array([-1.0])), "waits for data"),
        (plan(save_s=-1.0), "save_s must be finite and not negative, not -1.0"),
        (plan(failure_s=0.0), "failure_s"),
    ],
)
def test_a_run_that_cannot_be_is_refused(asked: Plan, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        gone(asked)
