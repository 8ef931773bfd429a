"""A server that stands still in a closed loop is seen, and one that does not is left alone."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.coverage.labels import queue

from twinlens.record.request import Requests
from twinlens.stats.serving.window import find_window

RUNS = 20


def closed_loop(seed: int, slots: int, cv: float, stall_s: float, at_s: float = 30.0, for_s: float = 60.0) -> Requests:
    """A loop of `slots` requests of 1 s (gamma, scatter `cv`) for a minute, on a server that stops for `stall_s`."""
    rng = np.random.default_rng([seed, slots])
    free, rows = [float(at) for at in rng.uniform(0, 1, slots)], []
    heapq.heapify(free)
    while free[0] < for_s:
        begin = heapq.heappop(free)
        end = begin + rng.gamma(1 / cv**2, cv**2)
        end += stall_s if begin < at_s <= end else 0.0
        rows.append((begin, end))
        heapq.heappush(free, end)
    due, ends = (np.rint(1e9 * np.array(side)).astype(np.int64) for side in zip(*sorted(rows), strict=True))
    made = queue(np.random.default_rng(0), due.size, 0.5, 1, None)
    return replace(made, intended_ns=due, sent_ns=due, end_ns=ends, chunk_ns=ends)


@pytest.mark.parametrize(("slots", "cv"), [(4, 0.2), (4, 0.5), (16, 0.2), (16, 0.5)])
def test_a_standstill_of_five_seconds_in_a_minute_is_never_valid_and_silent(slots: int, cv: float) -> None:
    """Before: 92 % of runs with 4 in flight and CV 0.2 were ranked without a word, all with 16 and CV 0.5."""
    windows = [find_window(closed_loop(seed, slots, cv, 5.0), "closed") for seed in range(RUNS)]
    assert sum(window is not None and window.validity == "not valid" for window in windows) >= 0.95 * RUNS


@pytest.mark.parametrize(("slots", "cv"), [(4, 0.2), (4, 0.5), (16, 0.2), (16, 0.5)])
def test_a_loop_without_one_stands_still_in_no_run(slots: int, cv: float) -> None:
    windows = [find_window(closed_loop(seed, slots, cv, 0.0), "closed") for seed in range(RUNS)]
    assert not any(window is None or window.reason.code == "stood-still" for window in windows)
