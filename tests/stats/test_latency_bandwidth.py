"""Latency and bandwidth from times over sizes: laws that are known come back, and what fits no line is refused."""

from __future__ import annotations

import numpy as np
import pytest

from twinlens.executors.in_process.ceiling import slow_links
from twinlens.executors.torch.parallel.exchanger import sizes_for
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.estimator.latency_bandwidth import fitted

SIZES = [float(2**power) for power in range(10, 25)]


def noisy(times: list[float], by: float, seed: int = 0) -> list[float]:
    rng = np.random.default_rng(seed)
    return [time * (1 + by * float(rng.uniform(-1, 1))) for time in times]


def test_a_law_comes_back_without_an_interval() -> None:
    """Residuals of least times do not say how far these lie above the truth: 19 to 25 % held it beside gamma noise."""
    for seed in range(40):
        (segment,), refused = fitted(SIZES, noisy([20e-6 + size / 5e9 for size in SIZES], 0.05, seed))
        assert refused is None
        assert segment.latency_s.value == pytest.approx(20e-6, rel=0.1)
        assert segment.bus_bytes_per_s.value == pytest.approx(5e9, rel=0.1)
        assert (segment.latency_s.low, segment.bus_bytes_per_s.low) == (None, None)
        assert "above the truth" in segment.bus_bytes_per_s.lacks


def test_small_sizes_count_as_much_as_large_ones() -> None:
    """In absolute seconds the largest size alone would decide, and a latency of 20 µs beside 3 ms would be anything."""
    times = [20e-6 + size / 5e9 for size in SIZES[:-1]] + [1.15 * SIZES[-1] / 5e9]
    (segment,), refused = fitted(SIZES, times)
    assert refused is None
    assert segment.latency_s.value == pytest.approx(20e-6, rel=0.1)


def test_a_slower_path_for_large_sizes_is_a_second_segment() -> None:
    times = [20e-6 + size / 8e9 if size < 2**20 else 100e-6 + size / 1e9 for size in SIZES]
    segments, refused = fitted(SIZES, times)
    assert refused is None
    assert len(segments) == 2
    assert segments[0].end_bytes < 2**20 <= segments[1].begin_bytes
    assert segments[1].bus_bytes_per_s.value == pytest.approx(1e9, rel=0.05)


def test_what_fits_no_line_is_refused_with_how_far_it_is_off() -> None:
    segments, refused = fitted(SIZES, noisy([20e-6 + size / 5e9 for size in SIZES], 0.8))
    assert refused is not None
    assert "20% is allowed" in refused
    assert segments[0].residual > 0.2
    assert fitted(SIZES[:3], [1.0, 2.0, 3.0]) == ((), "3 sizes, and a fit needs 4")


def test_a_link_whose_bandwidth_still_rises_at_256_mib_is_told_from_gigabytes() -> None:
    """The law of an all-reduce of 8 GPUs on NVSwitch: a maintainer of NCCL says 480 GB/s of bus bandwidth at most, and
    that 256 MiB are too few for it (nccl-tests issue 212)."""

    def time_s(moved: float) -> float:
        return 13e-6 + moved / 480e9 * (1 + (24 * 2**20 / moved) ** 0.75)

    def told(sizes: tuple[int, ...]) -> float:
        moved = [size * 1.75 for size in sizes]
        segments, refused = fitted(moved, [time_s(each) for each in moved])
        assert refused is None
        return float(segments[-1].bus_bytes_per_s.value or 0.0)

    assert told(sizes_for("gloo", 0)) < 300e9, "what 16 MiB show"
    assert told(sizes_for("nccl", 75 * 2**30)) == pytest.approx(480e9, rel=0.1)


def test_sizes_end_where_memory_does() -> None:
    assert (sizes_for("nccl", 75 * 2**30)[0], sizes_for("nccl", 75 * 2**30)[-1]) == (2**10, 2**33)
    assert sizes_for("nccl", 10 * 2**30)[-1] == 2**32
    assert sizes_for("gloo", 75 * 2**30)[-1] == 2**24, "on a processor they tell nothing of a link"


def test_a_link_at_half_its_speed_is_slow_where_a_gpu_times_it_and_is_noise_on_a_processor() -> None:
    half = pairs({(0, 1): 2.0})
    assert [each.code for each in slow_links(half, on_processor=False)] == ["slow-link"]
    assert slow_links(half, on_processor=True) == ()
    assert slow_links(pairs({(0, 1): 1.4}), on_processor=False) == ()


def pairs(slow: dict[tuple[int, int], float]) -> dict[tuple[int, int], tuple[float, ...]]:
    every = [(a, b) for b in range(4) for a in range(b)]
    return {pair: tuple(1e-3 * slow.get(pair, 1.0) * noise for noise in (1.0, 1.3, 9.0)) for pair in every}


def test_a_slow_link_is_named_and_a_slow_rank_instead_of_all_its_links() -> None:
    assert slow_links(pairs({}), on_processor=True) == ()
    (link,) = slow_links(pairs({(1, 3): 4.0}), on_processor=True)
    assert (link.code, link.subject, link.numbers["times"]) == ("slow-link", "1 and 3", 4.0)
    (rank,) = slow_links(pairs({(0, 2): 5.0, (1, 2): 3.0, (2, 3): 6.0}), on_processor=True)
    assert (rank.code, rank.subject, rank.numbers["times"]) == ("slow-rank", "2", 3.0)
    assert sentence_of(rank).startswith("Rank 2 is slow: its fastest exchange with any other takes 3.0 times")
    both = slow_links(pairs({(0, 2): 5.0, (1, 2): 3.0, (2, 3): 6.0, (0, 1): 4.0}), on_processor=True)
    assert [(each.code, each.subject) for each in both] == [("slow-rank", "2"), ("slow-link", "0 and 1")]
    assert slow_links({(0, 1): (9.0,)}, on_processor=True) == (), "one pair has none to compare with"
