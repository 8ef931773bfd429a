"""Verdicts on an SLO beyond doubt: a server exactly at its limit passes by luck in few runs, a good one in most."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.coverage.limits import CLEARLY, QUANTILE, Queue, limit_s, verdicts

from twinlens.stats.estimator.interval import independent_requests

FULL = (Queue("M", "M", 16, 0.9), Queue("M", "M", 16, 0.95), Queue("M", "M", 4, 0.9), Queue("M", "M", 1, 0.8))


def found(queue: Queue, kept: float, n: int, runs: int) -> list[str]:
    return list(verdicts(queue, kept, n, runs, seed=5))


@pytest.mark.parametrize("n", [200, 1000])
def test_queues_exactly_at_their_limit_pass_and_fail_in_few_runs(n: int) -> None:
    """Of runs of 200 3.4 % passed, of M/M/16 at load 0.95 10 %, while few stretches of a queue counted as many do."""
    given = [verdict for queue in FULL for verdict in found(queue, QUANTILE, n, 80)]
    assert given.count("pass") <= 0.025 * len(given)
    assert given.count("fail") <= 0.025 * len(given)


@pytest.mark.parametrize(
    ("queue", "most"),
    [(Queue("M", "M", 16, 0.5), 0.9), (Queue("M", "M", 16, 0.7), 0.75), (Queue("M", "M", 4, 0.5), 0.8)],
)
def test_an_slo_that_is_clearly_met_passes_in_most_runs_of_a_thousand(queue: Queue, most: float) -> None:
    assert found(queue, CLEARLY, 1000, 40).count("pass") >= most * 40


def test_an_slo_that_is_clearly_missed_fails_in_most_runs_of_a_thousand() -> None:
    assert found(Queue("M", "M", 16, 0.7), 0.8, 1000, 40).count("fail") >= 0.9 * 40


def test_the_limit_of_exponential_servers_is_exact() -> None:
    assert limit_s(Queue("M", "M", 1, 0.8), 0.9) == pytest.approx(-np.log(0.1) / 0.2)
    queue = Queue("M", "M", 4, 0.7)
    due, ends = queue.run(np.random.default_rng(2), 100_000)
    assert (ends - due <= limit_s(queue, 0.9)).mean() == pytest.approx(0.9, abs=0.01)


def test_independent_requests_are_all_of_them_and_one_at_least() -> None:
    rng = np.random.default_rng(6)
    times = rng.exponential(1.0, 1000)
    assert independent_requests(times < 2, [times]) == pytest.approx(1000)
    assert independent_requests(np.arange(200) < 100, [np.arange(200.0)], np.arange(200.0)) == 1.0


def test_each_stretch_counts_for_less_where_a_run_holds_few() -> None:
    """Stretches of 20 requests, alike within and independent of each other: 10 of them, and 200."""
    rng = np.random.default_rng(7)
    few, many = (
        np.mean([independent_requests(late > 0, [late]) for late in rng.normal(size=(30, count)).repeat(20, axis=1)])
        / count
        for count in (10, 200)
    )
    assert few < many / 2
    assert 0.2 < many <= 1
