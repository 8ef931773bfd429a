"""Steps of many ranks: drawn ones have the expected maximum, come in spells, and repeat with their seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.simulation.training.steps import Lognormal, Measured, drawn_s, expected_s, in_blocks, redrawn
from twinlens.stats.estimator.dependence import autocorrelation_time
from twinlens.theory.waiting.slowest import slowest_of_normal


def within(drawn: np.ndarray, expected: float) -> bool:
    """Five standard errors: one in two million by chance, and the seed is fixed."""
    return abs(drawn.mean() - expected) <= 5 * drawn.std() / math.sqrt(drawn.size)


@pytest.mark.parametrize("ranks", [1, 10, 100])
def test_drawn_steps_take_the_expected_maximum_over_ranks(ranks: int) -> None:
    times = Lognormal(0.2, 0.1)
    drawn = drawn_s(times, np.ones(ranks), 40_000, np.random.default_rng(1))
    assert within(drawn, expected_s(times, np.ones(ranks)))
    # For little spread it is the normal's: 1.54 σ at 10 ranks, 2.51 σ at 100.
    assert drawn.mean() / 0.2 == pytest.approx(1 + 0.1 * slowest_of_normal(ranks), abs=0.03)


def test_one_slow_rank_among_many_decides() -> None:
    times = Lognormal(1.0, 0.05)
    factors = np.array([*np.ones(63), 1.5])
    drawn = drawn_s(times, factors, 20_000, np.random.default_rng(2))
    assert within(drawn, expected_s(times, factors))
    assert drawn.mean() == pytest.approx(1.5, rel=0.01)


def test_measured_steps_of_more_ranks_take_the_expected_maximum() -> None:
    values = np.random.default_rng(3).gamma(4.0, 0.25, 2000)
    times = Measured((values,), ranks=2)
    drawn = drawn_s(times, np.ones(8), 40_000, np.random.default_rng(4))
    assert within(drawn, expected_s(times, np.ones(8)))
    assert drawn.mean() > values.mean()


def test_slow_steps_come_in_spells_as_they_were_measured() -> None:
    spell = np.repeat(np.random.default_rng(5).choice([1.0, 2.0], 200, p=[0.8, 0.2]), 20)
    alone = Measured((spell,), block=1)
    together = Measured((spell,), block=200)
    random = np.random.default_rng(6)
    apart, spells = (drawn_s(times, [1.0], 8000, random) for times in (alone, together))
    assert autocorrelation_time(apart) < 2 < 8 < autocorrelation_time(spells)
    assert spells.mean() == pytest.approx(apart.mean(), rel=0.1)


@given(st.lists(st.floats(0.1, 9.0), min_size=1, max_size=20), st.integers(1, 30), st.integers(1, 50))
def test_blocks_hold_only_values_that_were_measured(values: list[float], block: int, size: int) -> None:
    drawn = in_blocks(np.array(values), block, size, np.random.default_rng(0))
    assert len(drawn) == size
    assert set(drawn) <= set(values)


def test_repeats_that_differ_make_the_mean_as_uncertain_as_the_next_repeat_is() -> None:
    """Levels e^±0.01 and 1: their standard deviation is 0.01, so 95 % lie within 4.303 × 0.01 × √(4/3)."""
    times = Measured(tuple(np.full(50, math.exp(off)) for off in (-0.01, 0.0, 0.01)))
    random = np.random.default_rng(0)
    again = [redrawn(times, random) for _ in range(4000)]
    levels = np.log([each.runs_s[0].mean() for each in again if isinstance(each, Measured)])
    assert np.mean(np.abs(levels) < 4.303 * 0.01 * math.sqrt(4 / 3)) == pytest.approx(0.95, abs=0.012)
    assert redrawn(Lognormal(1.0), random) == Lognormal(1.0)


def test_the_same_seed_draws_the_same_steps() -> None:
    times = Measured((np.array([1.0, 2.0, 3.0]),), block=2)
    once, again = (drawn_s(times, np.ones(3), 100, np.random.default_rng(7)) for _ in range(2))
    assert once.tobytes() == again.tobytes()
    assert drawn_s(Lognormal(2.0), [1.0, 1.5], 3, np.random.default_rng(0)).tolist() == [3.0, 3.0, 3.0]


def test_ranks_that_were_not_measured_are_refused() -> None:
    with pytest.raises(BadInput, match="measured with 4 ranks give steps of 4, 8, … ranks, not of 6"):
        drawn_s(Measured((np.ones(9),), ranks=4), np.ones(6), 5, np.random.default_rng(0))
    with pytest.raises(BadInput, match="there must be some"):
        expected_s(Measured(()), [1.0])
