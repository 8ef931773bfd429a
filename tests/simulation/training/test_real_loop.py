"""A real loop of rollouts and updates with the embedded executor's model, beside its simulation."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from benchmarks.simulator.rollouts import BATCH, in_order, run, simulated


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("ahead", [0, 1])
def test_a_loop_that_ran_took_the_time_that_its_rules_say(ahead: int) -> None:
    """Of its own rollouts and steps in their order: what is left is starting, loading and handing over."""
    ran = run(ahead, 6)
    found = simulated(ran, ahead, 6, *in_order(ran))
    measured = 5 / (ran.steps[-1, 1] - ran.steps[0, 1])
    assert found.updates_per_s == pytest.approx(measured, rel=0.15)
    assert ran.ages.mean() <= ahead
    assert [len(batch) for batch in ran.samples] == [BATCH] * 6
    assert 0 < min(ran.reward) <= max(ran.reward) < 1
