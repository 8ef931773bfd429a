"""How often intervals hold the truth: coarse, with fixed seeds. The fine table is `python -m benchmarks.coverage`."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.coverage.batches import batched, true_gap_s

from twinlens.record.estimate import Estimate
from twinlens.stats.censored import censored_quantile
from twinlens.stats.metrics.latency import gaps_s


def covers(found: list[Estimate], truth: float) -> tuple[int, float]:
    """How many of the estimates have an interval, and which share of these holds the truth."""
    given = [one for one in found if one.low is not None and one.high is not None]
    return len(given), float(np.mean([one.low <= truth <= one.high for one in given])) if given else 1.0


@pytest.mark.parametrize("slots", [1, 8, 32])
def test_gaps_of_one_batch_are_one_observation(slots: int) -> None:
    """Row by row they covered 24 to 60 % from 8 slots on, as if each request's copy of a step were another step."""
    steps = 1560
    runs = [batched(np.random.default_rng([slots, seed]), steps, slots) for seed in range(25)]
    pooled = [gaps_s(one, np.arange(len(one))) for one in runs]
    for q, most in ((0.5, 1.3), (0.99, 1.3)):
        found = [censored_quantile(gaps, q, unit="s", what="gaps") for gaps in pooled]
        given, share = covers(found, true_gap_s(q))
        assert given == len(runs)
        assert share >= 0.88
        assert max(one.n or 0 for one in found) <= most * steps
