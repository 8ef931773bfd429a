"""The lateness in a client's certificate."""

from __future__ import annotations

import numpy as np
import pytest

from twinlens.measurement.client.calibrate import _p99


def test_of_few_requests_the_largest_lateness_counts_and_no_quantile() -> None:
    """Four requests in a second and a half at 3/s gave a "p99" between the two largest."""
    late = np.array([0.001, 0.002, 0.003, 0.050])
    assert _p99(late) == 0.050
    assert _p99(np.append(np.full(366, 0.001), 0.050)) == 0.050


def test_of_enough_requests_it_is_the_p99_and_never_below_nought() -> None:
    late = np.append(np.full(999, 0.001), 0.050)
    assert _p99(late) == pytest.approx(0.001)
    assert _p99(np.full(4, -0.001)) == 0.0
