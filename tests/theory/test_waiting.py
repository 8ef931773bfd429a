"""Waiting in closed form: worked by hand, from tables of order statistics, and at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.theory.waiting.shared import (
    age_updates,
    cycle_s,
    exposed_s,
    steps_in_gaps_per_s,
    updates_per_s,
    wait_beside_training_s,
)
from twinlens.theory.waiting.slowest import slowest_of_lognormal, slowest_of_normal, slowest_of_values


def test_the_slowest_of_normal_times_is_that_of_the_tables() -> None:
    """Of two 1/√π, of three 3/(2√π); Harter 1961: 1.53875 of 10, 2.50759 of 100, 3.24144 of 1000."""
    assert slowest_of_normal(1) == pytest.approx(0.0, abs=1e-9)
    assert slowest_of_normal(2) == pytest.approx(1 / math.sqrt(math.pi), rel=1e-6)
    assert slowest_of_normal(3) == pytest.approx(1.5 / math.sqrt(math.pi), rel=1e-6)
    assert [round(slowest_of_normal(n), 4) for n in (10, 100, 1000)] == [1.5388, 2.5076, 3.2414]


def test_the_slowest_of_a_few_values_by_hand() -> None:
    """Of 1 and 3 s, two ranks: 3 with probability 3/4. One rank twice as slow, so 2 or 6: 2 (1/4), 3 (1/4), 6 (1/2)."""
    assert slowest_of_values([3.0, 1.0], [1.0, 1.0]) == pytest.approx(0.25 * 1 + 0.75 * 3)
    assert slowest_of_values([3.0, 1.0], [1.0, 2.0]) == pytest.approx(0.25 * 2 + 0.25 * 3 + 0.5 * 6)


def test_values_that_are_the_slowest_of_some_ranks_say_what_more_ranks_take() -> None:
    """Slowest of two: 1 with 1/4, 3 with 3/4, so one rank has F(1) = 1/2, and four ranks 1/16."""
    assert slowest_of_values([1.0, 3.0, 3.0, 3.0], np.ones(4), ranks=2) == pytest.approx(1 / 16 + 3 * 15 / 16)
    assert slowest_of_values([1.0, 3.0, 3.0, 3.0], np.ones(2), ranks=2) == pytest.approx(2.5)


def test_little_spread_of_lognormal_times_is_that_of_normal_ones() -> None:
    wide = slowest_of_lognormal(2.0, 0.001, np.ones(100))
    assert wide == pytest.approx(2.0 * (1 + 0.001 * slowest_of_normal(100)), rel=1e-5)
    assert slowest_of_lognormal(2.0, 0.0, [1.0, 1.5]) == 3.0
    assert slowest_of_lognormal(2.0, 0.3, [1.0]) == pytest.approx(2.0, rel=1e-6)


@given(st.integers(1, 40), st.floats(0.0, 0.5), st.floats(1.0, 3.0))
def test_more_ranks_and_slower_ones_never_make_a_step_shorter(ranks: int, cv: float, slow: float) -> None:
    alike = slowest_of_lognormal(1.0, cv, np.ones(ranks))
    assert slowest_of_lognormal(1.0, cv, np.ones(ranks + 1)) >= alike - 1e-9
    assert slowest_of_lognormal(1.0, cv, [*np.ones(ranks - 1), slow]) >= alike - 1e-9


def test_a_rank_without_a_factor_is_refused() -> None:
    with pytest.raises(BadInput, match="each rank needs a factor above 0"):
        slowest_of_lognormal(1.0, 0.1, [1.0, 0.0])
    with pytest.raises(BadInput, match="must be finite and above 0"):
        slowest_of_values([1.0, math.nan], [1.0])


def test_gradients_that_keep_up_expose_one_bucket_and_slow_ones_queue() -> None:
    """Ten pieces of 0.1 s. Buckets of 0.05 s: the last one. Of 0.2 s: first ready at 0.1, ten of them end at 2.1."""
    assert exposed_s(1.0, 10, 0.05) == pytest.approx(0.05)
    assert exposed_s(1.0, 10, 0.2) == pytest.approx(0.1 + 10 * 0.2 - 1.0)


def test_a_request_beside_training_waits_for_what_is_left_of_a_step() -> None:
    """ρ = 0.5, 1 s each, exponential: 1 s alone; a step of 4 s leaves 2 s of it on average."""
    assert wait_beside_training_s(0.5, 1.0, 1.0, 4.0) == pytest.approx(1.0 + 2.0)
    assert wait_beside_training_s(0.5, 1.0, 0.0, 4.0, 1.0) == pytest.approx(0.5 + 4.0)
    assert steps_in_gaps_per_s(0.75, 0.5) == pytest.approx(0.5)


def test_loops_of_rollouts_by_hand() -> None:
    """Rollouts 3 s, step 1 s: 4 s an update in turn, 3 s beside each other. 8 in flight of 2 samples/s, 4 an update:
    (8 + 1 × 2) / 4 updates old."""
    assert cycle_s(3.0, 1.0) == 4.0
    assert updates_per_s(3.0, 1.0) == pytest.approx(1 / 3)
    assert age_updates(8, 4, 1.0, 2.0) == pytest.approx(2.5)
