"""Latency and bandwidth from times over sizes: laws that are known come back, and what fits no line is refused."""

from __future__ import annotations

import numpy as np
import pytest

from twinlens.executors.in_process.slow_link import slow_links
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.estimator.latency_bandwidth import fitted

SIZES = [float(2**power) for power in range(10, 25)]


def noisy(times: list[float], by: float, seed: int = 0) -> list[float]:
    rng = np.random.default_rng(seed)
    return [time * (1 + by * float(rng.uniform(-1, 1))) for time in times]


def test_a_law_comes_back_within_its_interval() -> None:
    inside = 0
    for seed in range(40):
        (segment,), refused = fitted(SIZES, noisy([20e-6 + size / 5e9 for size in SIZES], 0.05, seed))
        assert refused is None
        assert segment.latency.value == pytest.approx(20e-6, rel=0.1)
        assert segment.bandwidth.value == pytest.approx(5e9, rel=0.1)
        low, high = segment.bandwidth.low, segment.bandwidth.high
        assert low is not None
        assert high is not None
        inside += low <= 5e9 <= high
    assert inside >= 34, "a 95 % interval"


def test_small_sizes_count_as_much_as_large_ones() -> None:
    """In absolute seconds the largest size alone would decide, and a latency of 20 µs beside 3 ms would be anything."""
    times = [20e-6 + size / 5e9 for size in SIZES[:-1]] + [1.15 * SIZES[-1] / 5e9]
    (segment,), refused = fitted(SIZES, times)
    assert refused is None
    assert segment.latency.value == pytest.approx(20e-6, rel=0.1)


def test_a_slower_path_for_large_sizes_is_a_second_segment() -> None:
    times = [20e-6 + size / 8e9 if size < 2**20 else 100e-6 + size / 1e9 for size in SIZES]
    segments, refused = fitted(SIZES, times)
    assert refused is None
    assert len(segments) == 2
    assert segments[0].end_bytes < 2**20 <= segments[1].begin_bytes
    assert segments[1].bandwidth.value == pytest.approx(1e9, rel=0.05)


def test_what_fits_no_line_is_refused_with_how_far_it_is_off() -> None:
    segments, refused = fitted(SIZES, noisy([20e-6 + size / 5e9 for size in SIZES], 0.8))
    assert refused is not None
    assert "20% is allowed" in refused
    assert segments[0].residual > 0.2
    assert fitted(SIZES[:3], [1.0, 2.0, 3.0]) == ((), "3 sizes, and a fit needs 4")


def pairs(slow: dict[tuple[int, int], float]) -> dict[tuple[int, int], tuple[float, ...]]:
    every = [(a, b) for b in range(4) for a in range(b)]
    return {pair: tuple(1e-3 * slow.get(pair, 1.0) * noise for noise in (1.0, 1.3, 9.0)) for pair in every}


def test_a_slow_link_is_named_and_a_slow_rank_instead_of_all_its_links() -> None:
    assert slow_links(pairs({})) == ()
    (link,) = slow_links(pairs({(1, 3): 4.0}))
    assert (link.code, link.subject, link.numbers["times"]) == ("slow-link", "1 and 3", 4.0)
    (rank,) = slow_links(pairs({(0, 2): 5.0, (1, 2): 3.0, (2, 3): 6.0}))
    assert (rank.code, rank.subject, rank.numbers["times"]) == ("slow-rank", "2", 3.0)
    assert sentence_of(rank).startswith("Rank 2 is slow: its fastest exchange with any other takes 3.0 times")
    both = slow_links(pairs({(0, 2): 5.0, (1, 2): 3.0, (2, 3): 6.0, (0, 1): 4.0}))
    assert [(each.code, each.subject) for each in both] == [("slow-rank", "2"), ("slow-link", "0 and 1")]
    assert slow_links({(0, 1): (9.0,)}) == (), "one pair has none to compare with"
