"""How often a difference by turns holds what a gateway adds: a proxy of known delay beside its server.

`python -m benchmarks.coverage.added` prints the table of docs/results/coverage-added.md (`--save` writes it). Waits are
drawn anew for each request of both; what slows the machine for a round meets both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.coverage.told import told
from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.stats.paired.added import differences

PLACE = Path(__file__).parents[2] / "docs" / "results" / "coverage-added.md"
ADDED_S, TTFT_S, GAP_S = 0.005, 0.02, 0.004
ROUNDS, EACH, TOKENS = 16, 32, 4
TRUTHS = {"ttft_s_p50": ADDED_S, "ttft_s_p99": ADDED_S, "itl_s_p50": 0.0, "itl_s_p99": 0.0}
_HEAD = """# How often differences by turns hold what a gateway adds

By simulation, {count:,} studies a line (`python -m benchmarks.coverage.added --save`): a server whose first tokens take
{ttft:g} ms on average, and a proxy before it that adds {added:g} ms to each and nothing to gaps. {rounds} rounds a
repeat, {each} requests a turn; in three of ten rounds the machine makes everything half as long again, for both.
Nothing in it depends on the machine that makes it.

| difference | repeats | interval given | holds the truth | half-width, ms | off by, ms |
|---|---|---|---|---|---|
"""


def rows(of: int, seed: int, *, added_s: float = 0.0, tokens: int = TOKENS, failed: float = 0.0) -> Requests:
    """Turns of one of two points: waits are drawn anew for each request, and a slow half minute meets whole rounds."""
    draw, count = np.random.default_rng([seed, of]), ROUNDS * EACH
    slow = np.repeat(1 + 0.5 * (np.random.default_rng(seed).random(ROUNDS) < 0.3), EACH)
    first_s = slow * TTFT_S * draw.gamma(4, 0.25, count) + added_s
    gaps_s = slow[:, None] * GAP_S * draw.gamma(16, 1 / 16, (count, tokens - 1))
    chunk_s = np.cumsum(np.concatenate([first_s[:, None], gaps_s], axis=1), axis=1)
    begin_s = np.concatenate([[0.0], np.cumsum(chunk_s[:-1, -1])])
    chunk_ns, begin_ns = (np.rint(each * 1e9).astype(np.int64) for each in (chunk_s + begin_s[:, None], begin_s))
    every, nothing, place = np.full(count, tokens), np.full(count, np.nan), np.arange(count)
    outcome = np.where(draw.random(count) < failed, "failed", "ok").astype(object)
    return Requests(
        group=place, intended_ns=begin_ns, sent_ns=begin_ns, end_ns=chunk_ns[:, -1], input_tokens=every,
        output_tokens=every, outcome=outcome, offsets=np.arange(count + 1) * tokens, chunk_ns=chunk_ns.ravel(),
        chunk_tokens=np.ones(count * tokens, int), asked_tokens=every.astype(float), released_ns=nothing,
        session=nothing, turn=nothing, slice=2.0 * (place // EACH) + of, reasoning_chunks=nothing,
    )  # fmt: skip


def found(repeats: int, study: int) -> dict[str, Estimate]:
    """The differences of one study."""
    seeds = range(study * repeats, (study + 1) * repeats)
    return differences([(rows(1, each, added_s=ADDED_S), rows(0, each)) for each in seeds], [2] * repeats)


def lines(count: int) -> Iterator[str]:
    """The table."""
    yield _HEAD.format(count=count, ttft=1e3 * TTFT_S, added=1e3 * ADDED_S, rounds=ROUNDS, each=EACH).rstrip("\n")
    for repeats in (1, 3, 5):
        studies = [found(repeats, each) for each in range(count)]
        for name, truth in TRUTHS.items():
            yield line(name, repeats, [each[name] for each in studies], truth)


def line(name: str, repeats: int, estimates: list[Estimate], truth: float) -> str:
    """One line of the table."""
    known = [(each.low, each.high) for each in estimates if each.low is not None and each.high is not None]
    low, high = (np.array(side) for side in zip(*known, strict=True))
    missed = float(((low > truth) | (high < truth)).mean())
    share = max(1 / len(known), missed)
    off = np.mean([each.value for each in estimates if each.value is not None]) - truth
    return (
        f"| added {name} | {repeats} | {len(known) / len(estimates):.0%} | "
        f"{1 - missed:.1%} ± {math.sqrt(share * (1 - share) / len(known)):.1%} | "
        f"{1e3 * float(np.median(high - low)) / 2:.2f} | {1e3 * float(off):+.3f} |"
    )


def main() -> None:
    told("added", __doc__, "studies", 400, lines, PLACE)


if __name__ == "__main__":
    main()
