"""How often the interval of a paired ratio holds the truth: points that take turns on a machine that is not quiet.

`python -m benchmarks.coverage.paired` prints the table of docs/results/coverage-paired.md (`--save` writes it).
A row takes its own time, times what the machine does at that moment, times its own noise. The machine is the same for
both points, so the true ratio is that of the rows' own times.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.columns import folded
from twinlens.record.samples import FOREIGN_SHARE
from twinlens.stats.paired.ratio import PairedRatio, paired_ratio
from twinlens.stats.paired.slice_rate import SliceRates

PLACE = Path(__file__).parents[2] / "docs" / "results" / "coverage-paired.md"
RATIO = 1.8
_TICK_S = 0.03


_HEAD = """# How often intervals of paired ratios hold the truth

By simulation, {studies:,} studies a line; the true ratio is {ratio:g}, slices are of 0.5 s, rows take 0.08 and 0.15 s with 5 % noise.
In bursts, 30 to 40 % of the time, everything takes 1.9 times as long. Made by `python -m benchmarks.coverage.paired --save`; nothing
in it depends on the machine that makes it.

A ratio in which a drift could hide is provisional, and its interval is wider by that: ten and twenty rounds beside bursts
hold in 95 to 100 %, with half-widths of up to 63 % (before they were provisional: 94 to 98 %, up to 17 %).

| what happens on the machine | repeats | rounds | interval given | holds the truth | half-width | off by | no drift seen |
|---|---|---|---|---|---|---|---|
"""
_TAIL = """
From three repeats on the interval is over repeats, and holds whatever differs between them. Of one repeat it is over rounds, by how
far neighbouring rounds resemble each other. "off by": mean of all estimates against the truth.

## How long a slice should be

Three repeats, 8 s of work for each point in each, bursts 30 % of the time: a slice well below the bursts meets both sides alike.

| slice | bursts | half-width |
|---|---|---|
"""
_UNEQUAL = """
## One side suffers more than the other

Beside the neighbour the first point takes 1.9 times as long, the second 1.9 or 1.4 times; its load is measured, 30 rounds, {studies:,}
studies a line. The truth is the ratio on a calm machine. Rounds in which other programs ran are left out where eight of each repeat were
calm; else all stay, and where calm and disturbed rounds disagree the ratio is not valid. Before, all rounds were one: last column.
Bursts of 20 s may leave a short repeat without a calm round: its ratio is that beside the neighbour, provisional, and says so (86 %).

| slower by; neighbour | repeats | ranked | holds the truth | half-width | off by | difference seen | before |
|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """What happens to both points. `burst_share` of the time, for `burst_s` on average, a neighbour makes everything
    `burst_factor` times as long. `drift`: relative slow-down per minute. `throttle`: the factor it comes to, after
    `throttle_s`. `noise`: spread of a row's logarithm; `tail`: share of rows that take three times as long.
    `between`: spread of the true log ratio between repeats. `other_factor`: that of the second point, where it suffers
    otherwise. `cold`: by how much longer the first row of a slice takes."""

    name: str
    burst_share: float = 0.0
    burst_s: float = 3.0
    burst_factor: float = 1.9
    drift: float = 0.0
    throttle: float = 1.0
    throttle_s: float = 20.0
    noise: float = 0.05
    tail: float = 0.0
    between: float = 0.0
    other_factor: float | None = None
    cold: float = 0.0

    def slowdown(self, now_s: np.ndarray, is_busy: np.ndarray, side: int) -> np.ndarray:
        """How much longer a row of this point takes now."""
        factor = self.burst_factor if side == 0 or self.other_factor is None else self.other_factor
        heat = 1 + (self.throttle - 1) * -np.expm1(-now_s / self.throttle_s)
        return (1 + (factor - 1) * is_busy) * (1 + self.drift * now_s / 60) * heat


MACHINES = (
    Machine("quiet"),
    Machine("heavy tails", tail=0.02),
    Machine("bursts of 0.3 s", burst_share=0.3, burst_s=0.3),
    Machine("bursts of 1.5 s", burst_share=0.3, burst_s=1.5),
    Machine("bursts of 5 s", burst_share=0.3, burst_s=5.0),
    Machine("bursts of 20 s", burst_share=0.4, burst_s=20.0),
    Machine("drift of 20 % a minute", drift=0.2),
    Machine("throttling by 30 %", throttle=1.3),
    Machine("bursts, drift, throttling", burst_share=0.3, burst_s=3.0, drift=0.1, throttle=1.2),
    Machine("bursts; repeats differ by 1 %", burst_share=0.3, burst_s=3.0, between=0.01),
    Machine("bursts; repeats differ by 5 %", burst_share=0.3, burst_s=3.0, between=0.05),
)


def repeat(
    rng: np.random.Generator, machine: Machine, count: int, blocks: int, slice_s: float = 0.5, row_s: float = 0.15
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rates of both points in each round of `count` independent repeats, and for which share of its time the neighbour
    was there, arrays [count, blocks].

    The first point is `RATIO` times as fast as the second, whose rows take `row_s` of undisturbed time. A slice is as many
    rows as fill `slice_s` undisturbed; rounds go ABBA.
    """
    tilt = machine.between * rng.normal(size=count)
    own_s = (row_s / RATIO * np.exp(-tilt), np.full(count, row_s))
    size = tuple(max(1, round(slice_s / each_s)) for each_s in (row_s / RATIO, row_s))
    now_s = np.zeros(count)
    is_busy = rng.random(count) < machine.burst_share
    rates, met = np.empty((2, count, blocks)), np.zeros((2, count, blocks))
    for block in range(blocks):
        for side in (0, 1) if block % 2 == 0 else (1, 0):
            begin_s, rows, left_s = now_s.copy(), np.zeros(count), _work(rng, machine, own_s[side])
            left_s = left_s * (1 + machine.cold)
            working = np.ones(count, bool)
            while working.any():
                slow = machine.slowdown(now_s, is_busy, side)
                step_s = np.where(working, np.minimum(_TICK_S, left_s * slow), 0.0)
                now_s += step_s
                met[side, :, block] += step_s * is_busy
                left_s -= step_s / slow
                is_busy = _next(rng, machine, is_busy, step_s)
                ended = working & (left_s <= 1e-12)
                rows += ended
                working &= ~(ended & (rows >= size[side]))
                if ended.any():
                    left_s = np.where(ended, _work(rng, machine, own_s[side]), left_s)
            rates[side, :, block] = rows / (now_s - begin_s)
            met[side, :, block] /= now_s - begin_s
    return rates[0], rates[1], met[0], met[1]


def _work(rng: np.random.Generator, machine: Machine, own_s: np.ndarray) -> np.ndarray:
    """Undisturbed seconds of a row, with its own noise."""
    noisy = own_s * np.exp(machine.noise * rng.normal(size=own_s.size))
    return np.asarray(noisy * np.where(rng.random(own_s.size) < machine.tail, 3.0, 1.0))


def _next(rng: np.random.Generator, machine: Machine, is_busy: np.ndarray, took_s: np.ndarray) -> np.ndarray:
    """Whether the neighbour is there after so long: a two-state Markov process."""
    if not machine.burst_share:
        return is_busy
    speed = 1 / machine.burst_s / (1 - machine.burst_share)
    kept = np.exp(-speed * took_s)
    chance = machine.burst_share + (is_busy - machine.burst_share) * kept
    return np.asarray(rng.random(is_busy.size) < chance)


Sides = list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]


def sides(machine: Machine, repeats: int, blocks: int, studies: int, slice_s: float = 0.5) -> Sides:
    """For each repeat the rates of both points and the neighbour's shares, [studies, blocks] each."""
    rng = np.random.default_rng([repeats, blocks])
    return [repeat(rng, machine, studies, blocks, slice_s) for _ in range(repeats)]


def ratios(found: Sides, repeats: int, blocks: int, *, is_known: bool = False) -> list[PairedRatio]:
    """The paired ratio of each study, of its first so many repeats and rounds. `is_known`: the load of others was
    measured, of which a neighbour takes half of two processors."""
    places = np.arange(blocks)
    first, second = 2 * places + places % 2, 2 * places + 1 - places % 2

    def side(rates: np.ndarray, met: np.ndarray, slices: np.ndarray, study: int) -> SliceRates:
        marks = is_known & (met[study, :blocks] / 2 > FOREIGN_SHARE)
        return SliceRates(slices, rates[study, :blocks], marks)

    return [
        paired_ratio(
            [(side(a, x, first, study), side(b, y, second, study)) for a, b, x, y in found[:repeats]], [2] * repeats
        )
        for study in range(len(found[0][0]))
    ]


def unequal(studies: int) -> list[str]:
    """Lines of points that suffer unequally beside a neighbour, whose load is measured."""
    lines = []
    for factor, share, burst_s in (
        (1.9, 0.3, 1.5),
        (1.9, 0.5, 3.0),
        (1.4, 0.3, 1.5),
        (1.4, 0.5, 3.0),
        (1.4, 0.5, 20.0),
    ):
        machine = Machine("", burst_share=share, burst_s=burst_s, other_factor=factor)
        for repeats in (1, 3, 5):
            all_sides = sides(machine, repeats, 30, studies)
            before, after = (ratios(all_sides, repeats, 30, is_known=known) for known in (False, True))
            was, now = (
                line("", [one for one in found if one.validity != "not valid"], repeats, 30)
                for found in (before, after)
            )
            ranked = np.mean([one.validity != "not valid" for one in after])
            seen = np.mean([one.suffers is not None for one in after])
            lines.append(
                f"| 1.9, {factor:g}; bursts of {burst_s:g} s, {share:.0%} | {repeats} | {ranked:.0%} | **{now.covered:.1%}** | "
                f"±{now.half:.1%} | {now.bias:+.2%} | {seen:.0%} | {was.covered:.1%}, ±{was.half:.1%} |\n"
            )
    return lines


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: how often an interval was given and held the truth, how wide it was, and the labels."""

    machine: str
    repeats: int
    blocks: int
    given: float
    covered: float
    half: float
    bias: float
    calm: float


def line(name: str, found: list[PairedRatio], repeats: int, blocks: int) -> Line:
    """What the ratios of many studies come to."""
    given = [one.ratio for one in found if one.ratio.level is not None]
    covered = [(one.low or 0) <= RATIO <= (one.high or 0) for one in given]
    halves = [math.log((one.high or 1) / (one.low or 1)) / 2 for one in given]
    values = [one.ratio.value or math.nan for one in found]
    return Line(
        name,
        repeats,
        blocks,
        len(given) / len(found),
        float(np.mean(covered)) if covered else math.nan,
        float(np.median(halves)) if halves else math.nan,
        float(np.exp(np.mean(np.log(values))) / RATIO - 1),
        float(np.mean([one.label in ("level", "unproven") for one in found])),
    )


def table(studies: int) -> list[Line]:
    """All lines. Of one repeat nothing is said of others, so repeats that differ are left out there."""
    lines = []
    for machine in MACHINES:
        found = sides(machine, 5, 60, studies)
        for repeats in (1, 3, 5) if not machine.between else (3, 5):
            lines += [line(machine.name, ratios(found, repeats, n), repeats, n) for n in (10, 20, 60)]
    return lines


def by_slice(studies: int, total_s: float = 8.0) -> list[tuple[float, float, float]]:
    """(length of a slice, length of bursts, half-width) of three repeats with the same working time."""
    found = []
    for burst_s in (1.5, 5.0):
        machine = replace(MACHINES[4], burst_s=burst_s)
        for slice_s in (0.2, 0.5, 1.0, 2.0):
            blocks = max(2, round(total_s / slice_s))
            one = line("", ratios(sides(machine, 3, blocks, studies, slice_s), 3, blocks), 3, blocks)
            found.append((slice_s, burst_s, one.half))
    return found


def text(studies: int) -> str:
    """The page."""
    rows = [
        f"| {one.machine} | {one.repeats} | {one.blocks} | {one.given:.0%} | **{one.covered:.1%}** | "
        f"±{one.half:.1%} | {one.bias:+.2%} | {one.calm:.0%} |\n"
        for one in table(studies)
    ]
    short = [f"| {slice_s:g} s | {burst_s:g} s | ±{half:.1%} |\n" for slice_s, burst_s, half in by_slice(studies // 4)]
    page = _HEAD.format(studies=studies, ratio=RATIO) + "".join(rows) + _TAIL + "".join(short)
    return page + _UNEQUAL.format(studies=studies // 2) + "".join(unequal(studies // 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    page = text(asked.studies)
    print(page)
    if asked.save:
        PLACE.write_text(folded(page), encoding="utf-8")


if __name__ == "__main__":
    main()
