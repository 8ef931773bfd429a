"""Intervals between saves: worked by hand, and against a search for the best of Daly's complete model."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.theory.waiting.checkpoint import daly, goodput, young


def test_young_by_hand() -> None:
    """√(2 · 50 s · 10,000 s) = 1000 s."""
    assert young(50, 10_000) == pytest.approx(1000.0)


def test_daly_by_hand() -> None:
    """δ/2M = 50/20,000 = 1/400: 1000 · (1 + 1/60 + 1/3600) − 50 = 966.94 s."""
    assert daly(50, 10_000) == pytest.approx(1000 * (1 + 1 / 60 + 1 / 3600) - 50)
    assert daly(50, 10_000) == pytest.approx(966.9444, abs=1e-3)


def test_a_save_that_takes_two_failures_has_the_time_between_failures_as_its_interval() -> None:
    assert daly(200, 100) == 100
    assert daly(500, 100) == 100


def test_goodput_by_hand() -> None:
    """τ = 1000, δ = 50, R = 100, M = 10,000: 1000 / (10,000 · e^0.01 · (e^0.105 − 1))."""
    assert goodput(1000, 50, 100, 10_000) == pytest.approx(1000 / (10_000 * math.exp(0.01) * (math.exp(0.105) - 1)))
    assert goodput(1000, 0, 0, 1e12) == pytest.approx(1.0)


@given(st.floats(1e-4, 0.3), st.floats(10, 1e6))
def test_daly_is_near_the_best_of_the_complete_model_and_never_worse_than_young(part: float, failure_s: float) -> None:
    save_s = part * failure_s
    tried = np.geomspace(save_s / 100, 10 * failure_s, 4000)
    best = goodput(tried, save_s, 0.0, failure_s).max()
    own = goodput(daly(save_s, failure_s), save_s, 0.0, failure_s)
    assert own >= 0.99 * best
    assert own >= 0.999 * goodput(young(save_s, failure_s), save_s, 0.0, failure_s)


def test_arrays_are_taken_element_by_element() -> None:
    assert daly(np.array([50.0, 500.0]), np.array([10_000.0, 100.0])).tolist() == [daly(50, 10_000), 100.0]


def test_a_save_for_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="save_s must be above 0"):
        young(0, 100)
