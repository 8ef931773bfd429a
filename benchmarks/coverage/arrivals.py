"""How often paired differences of quantiles hold the truth: two ways of batching that met the same arrivals.

`python -m benchmarks.coverage.arrivals` prints the table of docs/results/coverage-arrivals.md (`--save` writes it).
A server decodes up to so many requests together; static and dynamic batches of 8 stay together until the last of them
ends, continuous ones are joined at every step. Pairs of one policy with itself differ by the noise of the server alone.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.coverage.told import told
from twinlens.stats.paired.arrivals import OfArrivals, over_stretches

PLACE = Path(__file__).parents[2] / "docs" / "results" / "coverage-arrivals.md"
_STEP_S, _STEP_PER_SLOT_S, _PREFILL_S = 0.010, 0.001, 0.012
_TOKENS, _SPREAD, _NOISE, _BATCH = 24.0, 0.5, 0.05, 8
_MOST_PER_S = _BATCH / (_TOKENS * math.exp(_SPREAD**2 / 2) * (_STEP_S + _BATCH * _STEP_PER_SLOT_S))
_ROWS, _FILL = 1_000_000, 500
PAIRS = (
    (0.15, "static 8", "dynamic 8"),
    (0.3, "static 8", "dynamic 8"),
    (0.3, "dynamic 8", "continuous 8"),
    (0.4, "static 8", "continuous 8"),
    (0.6, "continuous 8", "continuous 16"),
    (0.75, "continuous 8", "continuous 16"),
    (0.3, "dynamic 8", "dynamic 8"),
    (0.4, "static 8", "static 8"),
    (0.6, "continuous 8", "continuous 8"),
    (0.75, "continuous 8", "continuous 8"),
)
SIZES = ((420, 1), (480, 1), (1500, 1), (5000, 1), (200, 3), (480, 3), (480, 5))
_HEAD = """# How often paired differences of latency quantiles hold the truth

By simulation: two ways of batching before one server that met the same arrivals, up to {count} comparisons a line. Made
by `python -m benchmarks.coverage.arrivals --save`; nothing in it depends on the machine that makes it. The truth is the
median, over all stretches of that length, of the quantile's difference in TTFT; load 1 is what full batches of 8 come
to. "Holds": with the standard error of the simulation (of 0 misses, as if there were one). "told apart": how many
comparisons said that the first is slower, and how many that it is faster; "p99 lower in the long run": which of the two
has the lower quantile among a million requests, which a decision must not contradict.

Seven stretches whose signs agree hold nominally 98.4 %; where queues last, neighbours lean on each other, and 93 % and
more are left. A bootstrap in blocks of 24 held the long-run difference of p99 from 480 requests in 6–86 %: it rests on
queues that such a run has not met. The stretch is what a run of that length can say; the order of the two is the same.

| interval | load | first, second | requests | runs | holds | slower, faster | lower in the long run |
|---|---|---|---|---|---|---|---|
"""


def arrivals(rng: np.random.Generator, count: int, load: float) -> tuple[np.ndarray, np.ndarray]:
    """When requests are due, seconds, and how many tokens each wants, [count] each."""
    due_s = np.cumsum(rng.exponential(1 / (load * _MOST_PER_S), count))
    return due_s, np.maximum(1, np.rint(_TOKENS * np.exp(_SPREAD * rng.normal(size=count)))).astype(int)


def in_batches(due_s: np.ndarray, tokens: np.ndarray, noise: np.ndarray, timeout_s: float | None) -> np.ndarray:
    """First tokens [n] where batches of 8 start full, or `timeout_s` after their first came."""
    due, wanted, slow, n = due_s.tolist(), tokens.tolist(), noise.tolist(), len(due_s)
    first, head, free_s = np.empty(n), 0, 0.0
    while head < n:
        full_s = due[head + _BATCH - 1] if head + _BATCH <= n else due[-1]
        start_s = max(free_s, full_s if timeout_s is None else min(full_s, due[head] + timeout_s))
        end = head
        while end < n and end - head < _BATCH and due[end] <= start_s:
            end += 1
        size = end - head
        first[head:end] = start_s + (_PREFILL_S * size + _STEP_S) * slow[head]
        free_s = first[head] + (max(wanted[head:end]) - 1) * (_STEP_S + _STEP_PER_SLOT_S * size) * slow[head]
        head = end
    return first


def joined(due_s: np.ndarray, tokens: np.ndarray, noise: np.ndarray, slots: int) -> np.ndarray:
    """First tokens [n] where whoever waits joins at the end of a step while one of `slots` is free."""
    due, wanted, slow, n = due_s.tolist(), tokens.tolist(), noise.tolist(), len(due_s)
    first, head, step, now_s = np.empty(n), 0, 0, 0.0
    inside: list[tuple[int, int]] = []  # the step that ends it, and the request
    while head < n:
        now_s = now_s if inside else max(now_s, due[head])
        new = head
        while head < n and due[head] <= now_s and len(inside) < slots:
            heapq.heappush(inside, (step + wanted[head], head))
            head += 1
        factor = slow[head - 1]
        now_s += _PREFILL_S * (head - new) * factor
        first[new:head] = now_s + _STEP_S * factor
        took_s, steps = (_STEP_S + _STEP_PER_SLOT_S * len(inside)) * factor, inside[0][0] - step
        if head < n and len(inside) < slots:
            steps = min(steps, max(1, math.ceil((due[head] - now_s) / took_s)))
        step, now_s = step + steps, now_s + steps * took_s
        while inside and inside[0][0] <= step:
            heapq.heappop(inside)
    return first


_POLICIES: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "static 8": lambda *rows: in_batches(*rows, timeout_s=None),
    "dynamic 8": lambda *rows: in_batches(*rows, timeout_s=0.05),
    "continuous 8": lambda *rows: joined(*rows, slots=8),
    "continuous 16": lambda *rows: joined(*rows, slots=16),
}


@cache
def ttft_s(policy: str, load: float, seed: int, rows: int = _ROWS) -> np.ndarray:
    """TTFT [rows] of a policy at a load, of a server that is full already. `seed`: of its own noise."""
    due_s, tokens = arrivals(np.random.default_rng([7, round(100 * load)]), rows + _FILL, load)
    noise = np.exp(_NOISE * np.random.default_rng([8, seed]).normal(size=rows + _FILL))
    return np.asarray((_POLICIES[policy](due_s, tokens, noise) - due_s)[_FILL:])


def compared(a: np.ndarray, b: np.ndarray, q: float, size: int, runs: int, count: int) -> list[OfArrivals]:
    """b against a in so many comparisons of `runs` runs of `size` requests; runs of one comparison lie far apart."""
    pieces = [(a[at : at + size], b[at : at + size]) for at in range(0, a.size - size + 1, size)]
    apart = len(pieces) // runs
    found = [
        over_stretches([pieces[place + apart * run] for run in range(runs)], q) for place in range(min(count, apart))
    ]
    return [each for each in found if each is not None]


def line(load: float, names: tuple[str, str], q: float, size: int, runs: int, count: int) -> str:
    """One line of the table."""
    a, b = (ttft_s(name, load, seed) for seed, name in enumerate(names))
    found = compared(b, a, q, size, runs, count)
    bounds = [(each.difference.low or 0.0, each.difference.high or 0.0) for each in found]
    truth = float(np.median([each.difference.value or 0.0 for each in found]))
    share = max(1, sum(not low <= truth <= high for low, high in bounds)) / len(found)
    misses = sum(not low <= truth <= high for low, high in bounds) / len(found)
    slower, faster = (sum(low > 0 for low, _ in bounds), sum(high < 0 for _, high in bounds))
    long = np.quantile(a, q) - np.quantile(b, q)
    lower = "neither" if names[0] == names[1] else names[1] if long > 0 else names[0]
    return (
        f"| arrivals, p{100 * q:g} | {load:g} | {names[0]}, {names[1]} | {size} | {runs} | {1 - misses:.1%} ± "
        f"{math.sqrt(share * (1 - share) / len(found)):.1%} | {slower / len(found):.1%}, {faster / len(found):.1%} | "
        f"{lower} |"
    )


def lines(count: int) -> Iterator[str]:
    """The table."""
    yield _HEAD.format(count=count).rstrip("\n")
    for load, *names in PAIRS:
        for q in (0.5, 0.9, 0.99):
            for size, runs in SIZES:
                yield line(load, (names[0], names[1]), q, size, runs, count)
        ttft_s.cache_clear()


def main() -> None:
    told("arrivals", __doc__, "comparisons", 500, lines, PLACE)


if __name__ == "__main__":
    main()
