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
from twinlens.stats.paired.arrivals import STRETCHES, OfArrivals, of_stretches, over_stretches

PLACE = Path(__file__).parents[2] / "docs" / "results" / "coverage-arrivals.md"
_STEP_S, _STEP_PER_SLOT_S, _PREFILL_S = 0.010, 0.001, 0.012
_TOKENS, _SPREAD, _NOISE, _BATCH = 24.0, 0.5, 0.05, 8
_MOST_PER_S = _BATCH / (_TOKENS * math.exp(_SPREAD**2 / 2) * (_STEP_S + _BATCH * _STEP_PER_SLOT_S))
_ROWS, _FILL = 300_000, 500
_AGAIN = 2  # times that each comparison is made once more, for what it should have held
PAIRS = (
    (0.15, "static 8", "dynamic 8"),
    (0.3, "static 8", "dynamic 8"),
    (0.3, "dynamic 8", "continuous 8"),
    (0.4, "static 8", "continuous 8"),
    (0.6, "continuous 8", "continuous 16"),
    (0.75, "continuous 8", "continuous 16"),
    (0.78, "continuous 8", "continuous 16"),
    (0.8, "continuous 8", "continuous 16"),
    (0.3, "dynamic 8", "dynamic 8"),
    (0.4, "static 8", "static 8"),
    (0.6, "continuous 8", "continuous 8"),
    (0.75, "continuous 8", "continuous 8"),
    (0.78, "continuous 8", "continuous 8"),
    (0.8, "continuous 8", "continuous 8"),
)
SIZES = ((420, 1), (480, 1), (1500, 1), (200, 3), (480, 3))
_HEAD = """# How often paired differences of latency quantiles hold the truth

By simulation: two ways of batching before one server that met the same arrivals, up to {count} comparisons a line. Made
by `python -m benchmarks.coverage.arrivals --save`; nothing in it depends on the machine that makes it. Load 1 is what
full batches of 8 come to without their prefill; with it continuous 8 ends at 0.83.

- *given*: how many comparisons had an interval.
- *holds*: how many of these held the median stretch's difference in TTFT on these arrivals, of both policies measured
  twice more (of a policy with itself: 0), with the standard error of the simulation (of 0 misses, as if it were one).
- *any arrivals*: how many held the median of all stretches of that length, whatever came in them.
- *slower, faster*: how many said that the first is; *in the long run*: which has the lower quantile among {rows:,}
  requests, which a decision must not contradict.

Until 2026-11-24 the ends of the stretches were the interval, and at load 0.75 (nine tenths of capacity) 92.6 to 93.2 %
held the median of all stretches. Now it is a tenth of its length wider to either side, and there is none where a run is
one long swing of its queue.

**What bounds it.** At 94 % of capacity and beyond (0.78, 0.8) the interval of *one* run is true of the arrivals that
came and of no others: runs that have one are those that the queue spared, and show less than the median stretch of all
(51 to 95 % hold it). No rule that looks at such a run can mend that; the order is right in all of them. Three runs
hold both at every load here. Before, all runs had an interval there, and equal policies were told apart in 7 to 28 % of
them (now in up to 11 % of a third). A bootstrap in blocks of 24 held the long-run difference of p99 from 480 requests
in 6–86 %: it rests on queues that such a run has not met.

| interval | load | first, second | requests | runs | given | holds | any arrivals | slower, faster | in the long run |
|---|---|---|---|---|---|---|---|---|---|
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


Pairs = list[tuple[np.ndarray, np.ndarray]]


def pieces(a: np.ndarray, b: np.ndarray, size: int, runs: int, count: int) -> list[Pairs]:
    """So many comparisons of `runs` runs of `size` requests; runs of one comparison lie far apart."""
    each = [(a[at : at + size], b[at : at + size]) for at in range(0, a.size - size + 1, size)]
    apart = len(each) // runs
    return [[each[place + apart * run] for run in range(runs)] for place in range(min(count, apart))]


def of_all(a: np.ndarray, b: np.ndarray, q: float, runs: int) -> np.ndarray:
    """b less a in each stretch of one run [stretches]."""
    count = -(-STRETCHES // runs)
    return np.subtract(of_stretches(b, q, count), of_stretches(a, q, count))


def medians(all_pairs: list[Pairs], q: float) -> np.ndarray:
    """The median stretch of each comparison [comparisons], also of those without an interval."""
    return np.array([np.median([of_all(a, b, q, len(pairs)) for a, b in pairs]) for pairs in all_pairs])


def compared(all_pairs: list[Pairs], q: float) -> list[OfArrivals | None]:
    """b against a in each comparison; None where it has no interval."""
    return [over_stretches(pairs, q) for pairs in all_pairs]


def holding(found: list[OfArrivals | None], truth: np.ndarray) -> np.ndarray:
    """Which of the intervals that were given hold the truth of their comparison."""
    bounds = [(each.difference.low or 0.0, each.difference.high or 0.0, one)
              for each, one in zip(found, truth, strict=True) if each is not None]  # fmt: skip
    return np.array([low <= one <= high for low, high, one in bounds], dtype=bool)


def line(load: float, names: tuple[str, str], q: float, size: int, runs: int, count: int) -> str:
    """One line of the table."""
    own, *again = (
        pieces(ttft_s(names[1], load, 2 * place + 1), ttft_s(names[0], load, 2 * place), size, runs, count)
        for place in range(1 + _AGAIN)
    )
    found, whole = compared(own, q), medians(own, q)
    is_same = names[0] == names[1]
    here = np.zeros(whole.size) if is_same else np.mean([medians(each, q) for each in again], axis=0)
    held = holding(found, here)
    anywhere = holding(found, np.full(whole.size, 0.0 if is_same else np.median(whole)))
    long = np.quantile(ttft_s(names[0], load, 0), q) - np.quantile(ttft_s(names[1], load, 1), q)
    lower = "neither" if is_same else names[1] if long > 0 else names[0]
    told = f"| arrivals, p{100 * q:g} | {load:g} | {names[0]}, {names[1]} | {size} | {runs} | "
    if held.size < 20:
        return f"{told}{held.size / whole.size:.0%} | – | – | – | {lower} |"
    share, missed = max(1, (~held).sum()) / held.size, float((~held).mean())
    low, high = (np.array([getattr(each.difference, end) for each in found if each]) for end in ("low", "high"))
    return (
        f"{told}{held.size / whole.size:.0%} | {1 - missed:.1%} ± {math.sqrt(share * (1 - share) / held.size):.1%} | "
        f"{anywhere.mean():.0%} | {(low > 0).mean():.1%}, {(high < 0).mean():.1%} | {lower} |"
    )


def lines(count: int) -> Iterator[str]:
    """The table."""
    yield _HEAD.format(count=count, rows=_ROWS).rstrip("\n")
    for load, *names in PAIRS:
        for q in (0.5, 0.9, 0.99):
            for size, runs in SIZES:
                yield line(load, (names[0], names[1]), q, size, runs, count)
        ttft_s.cache_clear()


def main() -> None:
    told("arrivals", __doc__, "comparisons", 300, lines, PLACE)


if __name__ == "__main__":
    main()
