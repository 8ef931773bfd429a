"""How often ratios hold the truth whose rounds ended at the first look at which they were known, and what that saves.

`python -m benchmarks.coverage.turns` prints the table of docs/results/coverage-turns.md (`--save` writes it). The
machines are those of benchmarks/coverage/paired.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.coverage.paired import MACHINES, RATIO, Sides, sides
from benchmarks.coverage.told import told
from twinlens.record.estimate import Estimate
from twinlens.spec.protocol import Protocol
from twinlens.stats.paired.ratio import paired_ratio, widest
from twinlens.stats.paired.slice_rate import SliceRates
from twinlens.stats.serving.looks import looks_s

PLACE = Path(__file__).parents[2] / "docs" / "results" / "coverage-turns.md"
_LEAST, _MOST = 10, 60  # rounds
_HEAD = """# Rounds that end when every ratio is known

By simulation, {count} studies a line, on the machines of [coverage-paired.md](coverage-paired.md); the true ratio is
{ratio:g}. Made by `python -m benchmarks.coverage.turns --save`; nothing in it depends on the machine that makes it.
`duration_s` is worth {least} rounds and `most_s` {most}, so there are {looks} looks; a repeat ends at the first look at
which its ratio is valid and known within `width`. Last but one: the same if looks did not share the doubt; last: all
{most} rounds.

| machine | repeats | width | rounds, mean | holds the truth | half-width | not shared | {most} rounds |
|---|---|---|---|---|---|---|---|
"""


def rounds_at_looks() -> list[int]:
    """How many rounds there are at each look."""
    return [round(each) for each in looks_s(Protocol(duration_s=_LEAST, most_s=_MOST))]


def slices(found: Sides, repeat: int, study: int, blocks: int) -> tuple[SliceRates, SliceRates]:
    """Both points in the first so many rounds of a repeat, which go ABBA."""
    places, calm = np.arange(blocks), np.zeros(blocks, bool)
    above, below, _, _ = found[repeat]
    return (
        SliceRates(2 * places + places % 2, above[study, :blocks], calm),
        SliceRates(2 * places + 1 - places % 2, below[study, :blocks], calm),
    )


def ended(found: Sides, repeat: int, study: int, width: float, shared: int) -> int:
    """How many rounds a repeat has that ends at its first narrow look."""
    counts = rounds_at_looks()
    for blocks in counts[:-1]:
        if widest(slices(found, repeat, study, blocks), shared) <= width:
            return blocks
    return counts[-1]


def ratio(found: Sides, study: int, blocks: list[int], looks: int) -> Estimate:
    """The ratio over repeats of so many rounds."""
    pairs = [slices(found, repeat, study, count) for repeat, count in enumerate(blocks)]
    return paired_ratio(pairs, [2] * len(pairs), looks=looks).ratio


def line(name: str, found: Sides, width: float) -> str:
    """One line of the table."""
    studies, repeats, looks = len(found[0][0]), len(found), len(rounds_at_looks())
    ends = {
        shared: [[ended(found, each, study, width, shared) for each in range(repeats)] for study in range(studies)]
        for shared in (looks, 1)
    }
    ratios = {shared: [ratio(found, study, ends[shared][study], shared) for study in range(studies)] for shared in ends}
    whole = [ratio(found, study, [_MOST] * repeats, 1) for study in range(studies)]
    return (
        f"| {name} | {repeats} | {width:.0%} | {np.mean(ends[looks]):.0f} | **{_holds(ratios[looks]):.1%}** | "
        f"±{_half(ratios[looks]):.1%} | {_holds(ratios[1]):.1%} | {_holds(whole):.1%}, ±{_half(whole):.1%} |"
    )


def _holds(found: list[Estimate]) -> float:
    return float(np.mean([(one.low or 0) <= RATIO <= (one.high or 0) for one in found if one.level is not None]))


def _half(found: list[Estimate]) -> float:
    return float(np.median([math.log((one.high or 1) / (one.low or 1)) / 2 for one in found if one.level is not None]))


def lines(count: int) -> Iterator[str]:
    """The table."""
    yield _HEAD.format(count=count, ratio=RATIO, least=_LEAST, most=_MOST, looks=len(rounds_at_looks())).rstrip("\n")
    for machine in (*MACHINES[:8], MACHINES[10]):
        for repeats in (1, 3) if not machine.between else (3,):
            found = sides(machine, repeats, _MOST, count)
            for width in (0.02, 0.05):
                yield line(machine.name, found, width)


def main() -> None:
    told("turns", __doc__, "studies", 300, lines, PLACE)


if __name__ == "__main__":
    main()
