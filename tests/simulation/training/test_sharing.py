"""Slowdowns of sharing: ratios by round, of slices that were measured by turns."""

from __future__ import annotations

import pytest
from benchmarks.simulator.sharing import Slice, page, slowdown, slowdowns

ROUND = {
    "serving": Slice(0.1, 0.01, None),
    "training": Slice(None, None, 4.0),
    "both": Slice(0.2, 0.03, 2.0),
}


def test_a_slowdown_is_the_geometric_mean_of_ratios_with_students_interval_of_their_logarithms() -> None:
    found = slowdown([1.0, 4.0])
    assert found.value == pytest.approx(2.0)
    assert found.high == pytest.approx(2.0 * 4.0**6.3531, rel=1e-3)  # t(0.975, 1) = 12.706, of ln 2 (s / root 2)
    assert found.low == pytest.approx(4.0 / found.high)


def test_serving_counts_time_over_time_and_training_rate_over_rate() -> None:
    found = slowdowns([ROUND, ROUND])
    values = {name: each.value for name, each in found.items()}
    assert values == pytest.approx({"time to first token": 2.0, "time per token": 3.0, "training step": 2.0})


def test_a_round_without_a_step_beside_serving_says_nothing_of_training() -> None:
    lost = ROUND | {"both": Slice(0.2, 0.03, None)}
    assert slowdowns([ROUND, ROUND, lost])["training step"].n == 2
    assert "| time per token | 3.00 | 3.00–3.00 | 3 |" in page([ROUND, ROUND, lost], 6.0)
