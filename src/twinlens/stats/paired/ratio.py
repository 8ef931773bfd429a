"""Ratios of points that take turns: their width while they do, and each rate's ratio when they have.

What disturbs the machine for longer than a round meets both sides and leaves the log ratio alone (Bulej et al. 2020).
Pages: `explain paired_ratio`; coverage by simulation: docs/results/coverage-paired.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twinlens.record.codec import by_fields
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding, Validity
from twinlens.record.run import Run
from twinlens.stats.estimator.interval import t_quantile
from twinlens.stats.estimator.repeats import FEWEST_RUNS, widened
from twinlens.stats.paired.slice_rate import (
    Marks,
    Rates,
    SliceRates,
    suffering,
)
from twinlens.stats.serving.looks import looks_s
from twinlens.stats.summary.group import Group
from twinlens.units import RATIO

FEWEST_BLOCKS = 8  # of one repeat: fewer cannot show how far neighbouring rounds resemble each other
MOST_BLOCKS = 400  # rounds beyond that are averaged with their neighbours, so that hours cost no more than minutes
_LEAST_INDEPENDENT = 3.0
_VISIBLE_LEVEL = 0.99  # one steady ratio in a hundred may be called drifting
_DELTA = 0.01  # a change of less decides nothing
MOST_HIDDEN = 0.25  # no "level" where a drift of a quarter would not have shown (docs/decisions/0014)

Blocks = NDArray[np.float64]
PairedLabel = Literal["level", "unproven", "drift", "unequal", "too short"]
_VALIDITY: dict[str, Validity] = {"level": "valid", "unproven": "provisional"}


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """How many times the rate of `below` is that of `above`, from slices. `metric`: of which rate.

    `label`, `reason`: whether the ratio itself was steady; `visible_change`: the smallest relative change over a
    repeat that would have shown. `blocks`: rounds that it is taken of; `disturbed_slices` of `slices` met others.
    `beside`: the ratio of the rounds that met them, of `all_blocks` in all; `suffers`: how far it lies from that of the
    calm ones, where they differ by more than chance; "unequal" where too few are calm to go by these alone.
    """

    above: str
    below: str
    metric: str
    ratio: Estimate
    label: PairedLabel
    reason: Finding
    visible_change: float | None
    repeats: int
    blocks: int
    slices: int
    disturbed_slices: int
    all_blocks: int | None = None
    beside: float | None = None
    suffers: float | None = None

    @property
    def validity(self) -> Validity:
        """Valid where the ratio was steady, provisional where only too little was seen to show it; both need an
        interval."""
        if self.ratio.low is None or self.ratio.level is None:
            return "not valid"
        return _VALIDITY.get(self.label, "not valid")

    def __json__(self) -> dict[str, Any]:
        plain = by_fields(self)
        return plain | {name: plain.pop(name) for name in ("reason", "ratio")} | {"validity": self.validity}


def paired_ratio(
    pairs: Sequence[tuple[SliceRates, SliceRates]],
    points: Sequence[int],
    *,
    names: tuple[str, str, str] = ("", "", ""),
    level: float = 0.95,
    looks: int = 1,
) -> PairedRatio:
    """The ratio of two points over their repeats. `pairs`: (above, below) of each repeat, whose slices are numbered
    over all of its `points`; `names`: above, below, metric. Absent where no round has both. `looks`: how many times the
    rounds of a repeat were looked at, whichever of them ended it."""
    rounds = [each for pair, count in zip(pairs, points, strict=True) if (each := rounds_of(*pair, count))[0].size]
    met = suffering([blocks for blocks, _ in rounds], [marks for _, marks in rounds], FEWEST_BLOCKS)
    series = met.kept
    slices = sum(side.slices.size for pair in pairs for side in pair)
    disturbed = sum(int(side.disturbed.sum()) for pair in pairs for side in pair)
    label, reason, visible = steadiness(series)
    if met.is_unequal and not met.is_calm:
        numbers = {"calm": met.calm, "of": met.of, "change": met.change or 0.0}
        label, reason = "unequal", _because("suffers-unequally", **numbers)
    elif label == "level" and met.is_blind:
        label, reason = "unproven", _because("no-calm-rounds", calm=met.calm, of=met.of)
    ratio = widened(
        ratio_over(series, level=level, looks=looks), met.hidden, visible if reason.code == "drift-unseen" else None
    )
    return PairedRatio(
        *names,
        ratio=ratio,
        label=label,
        reason=reason,
        visible_change=visible,
        repeats=len(series),
        blocks=sum(of_repeat.size for of_repeat in series),
        slices=slices,
        disturbed_slices=disturbed,
        all_blocks=met.of,
        beside=met.beside,
        suffers=met.change if met.is_unequal else None,
    )


def rounds_of(above: SliceRates, below: SliceRates, points: int) -> tuple[Blocks, Marks]:
    """The log ratio of each round in which both did work [blocks], and whether either met other programs.

    Slice s belongs to round s // points.
    """
    _, first, second = np.intersect1d(above.slices // points, below.slices // points, return_indices=True)
    a, b = above.rates[first], below.rates[second]
    both = (a > 0) & (b > 0)
    marks = above.disturbed[first] | below.disturbed[second]
    return np.asarray(np.log(a[both] / b[both]), dtype=np.float64), np.asarray(marks[both], dtype=bool)


def ratio_over(series: Sequence[Blocks], *, level: float = 0.95, looks: int = 1) -> Estimate:
    """The ratio from the log ratios of the rounds of each repeat.

    From three repeats on: mean of the repeats' means, t interval over repeats, which holds whatever differs between
    them. Two: their range, no level. One: t interval within it, by how far neighbouring rounds resemble each other, and
    asked so surely that all of its `looks` hold together (stats/serving/looks.py).
    """
    if not series:
        return Estimate.absent(RATIO, "no round has both points", "mean log ratio of paired slices")
    mean = mean_over(series, "mean log ratio of paired slices", "rounds", level=level, looks=looks)
    if mean.low is None or mean.high is None:
        return replace(mean, value=math.exp(mean.value or 0.0))
    low, high = math.exp(mean.low), math.exp(min(mean.high, 700.0))
    return replace(mean, value=math.exp(mean.value or 0.0), low=low, high=high)


def mean_over(
    series: Sequence[Blocks], what: str, each: str, *, unit: str = RATIO, level: float = 0.95, looks: int = 1
) -> Estimate:
    """The mean of the values of each repeat, at least one: its interval as `ratio_over` says. `what` it is a mean of,
    and what one value is called (`each`), for its method."""
    means, blocks = np.array([of_repeat.mean() for of_repeat in series]), sum(of_repeat.size for of_repeat in series)
    value, method = float(means.mean()), f"{what}, {blocks} {each}"
    if len(series) >= FEWEST_RUNS:
        half = t_quantile(level, len(series) - 1) * float(means.std(ddof=1)) / math.sqrt(len(series))
        text = f"{method} in {len(series)} repeats, t interval over repeats"
        return Estimate(value, unit, text, "derived", value - half, value + half, level, len(series))
    if len(series) > 1:
        low, high = float(means.min()), float(means.max())
        text = f"{method} in 2 repeats, with their range; no confidence claimed"
        return Estimate(value, unit, text, "derived", low=low, high=high, n=2)
    error, independent = _within(series[0])
    if series[0].size < FEWEST_BLOCKS or independent < _LEAST_INDEPENDENT:
        why_not = f"none below {FEWEST_BLOCKS} {each} and {_LEAST_INDEPENDENT:g} independent"
        n = max(1, int(independent))
        return Estimate(value, unit, f"{method} of one repeat", "derived", n=n, no_interval=why_not)
    asked = 1 - (1 - level) / looks
    half = t_quantile(asked, max(1.0, independent - 1)) * error
    text = f"{method} of one repeat, t interval over {each}; not comparable across repeats"
    text += f", each look at {asked:.4g}" if looks > 1 else ""
    return Estimate(value, unit, text, "derived", value - half, value + half, level, int(independent))


def _because(code: str, **numbers: float) -> Finding:
    return Finding(code, "notes", "", numbers)


def steadiness(series: Sequence[Blocks]) -> tuple[PairedLabel, Finding, float | None]:
    """Whether the log ratio stayed on one level within repeats: label, reason, and the least change that would show.

    A straight line through the rounds of each repeat: the common slope of all repeats, and each one's own (at a level
    shared between them), with an interval that respects how far neighbouring rounds resemble each other.
    """
    if not series or min(of_repeat.size for of_repeat in series) < FEWEST_BLOCKS:
        fewest = min((of_repeat.size for of_repeat in series), default=0)
        return "too short", _because("few-rounds", rounds=fewest, fewest=FEWEST_BLOCKS), None
    lines = [_line(of_repeat) for of_repeat in series]
    errors = np.array([error for _, error, _ in lines])
    if not errors.any():
        return "level", _because("equal-rounds"), 0.0
    common, freedom = float(np.mean([change for change, _, _ in lines])), sum(max(1.0, free) for _, _, free in lines)
    half = t_quantile(_VISIBLE_LEVEL, freedom) * math.sqrt(float((errors**2).mean()) / len(lines))
    visible = math.expm1(min(half, 700.0))
    if abs(common) > max(half, math.log1p(_DELTA)):
        return "drift", _because("ratio-drifts", change=math.expm1(common)), visible
    for number, (change, error, free) in enumerate(lines):
        alone = t_quantile(1 - (1 - _VISIBLE_LEVEL) / len(lines), max(1.0, free)) * error
        if abs(change) > max(alone, math.log1p(_DELTA)):
            return "drift", _because("ratio-drifts", change=math.expm1(change), repeat=number), visible
    if visible > MOST_HIDDEN:
        rounds = sum(of_repeat.size for of_repeat in series)
        return "unproven", _because("drift-unseen", rounds=rounds, visible_change=visible), visible
    return "level", _because("ratio-level", visible_change=visible), visible


def _line(series: Blocks) -> tuple[float, float, float]:
    """Change of a series over its length by least squares, its standard error, and freedom."""
    calm = _grouped(series)
    place = np.linspace(-0.5, 0.5, calm.size)
    power = float(place @ place)
    change = float(place @ calm) / power
    rest = calm - calm.mean() - change * place
    tau = _time(rest)
    free = calm.size / max(tau, 1.0) - 2
    return change, math.sqrt(float(rest @ rest) / max(1, calm.size - 2) * tau / power), free


def _within(series: Blocks) -> tuple[float, float]:
    """Standard error of the mean of a series, and how many independent values it is worth."""
    calm = _grouped(series)
    n = calm.size
    if n < 3:
        return 0.0, 1.0
    tau = min(_time(calm - calm.mean()), n / 2)
    hidden = float(calm.var()) / (1 - tau / n)  # the variance that correlated values hide (Priestley 1981, 5.3)
    return math.sqrt(hidden * tau / n), n / max(tau, 1.0)


def _grouped(series: Blocks) -> Blocks:
    """At most `MOST_BLOCKS` means of neighbours."""
    size = -(-series.size // MOST_BLOCKS)
    edges = np.arange(0, series.size - series.size % size, size)
    return np.asarray(np.add.reduceat(series[: edges.size * size], edges) / size, dtype=np.float64)


def _time(centred: Blocks) -> float:
    """Autocorrelation time of a first-order process, in rounds.

    φ at lag 1 is raised by (1 + 3φ)/n for the bias of short series (Marriott & Pope 1954) and by 0.3/√n for its own
    error: with fewer, intervals cover too little from 10 rounds (benchmarks/coverage/paired.py). Rounds whose order
    alternates turn a drift into a see-saw, so below 1 is credited, but little.
    """
    n, power = centred.size, float(centred @ centred)
    if power <= n * 1e-28:
        return 1.0
    phi = float(centred[1:] @ centred[:-1]) / power
    phi = min(max(phi + (1 + 3 * phi) / n + 0.3 / math.sqrt(n), -0.4), 0.9)
    return (1 + phi) / (1 - phi)


# Two groups of runs that took turns: the paired ratio of each rate, from the rows of their runs.


@dataclass(frozen=True, slots=True)
class ByTurns:
    """The ratio of one rate of two groups. `own`: findings of their runs that make the ratio not valid.

    What says nothing against a ratio of rates is not among them (`leaves_rates`).
    """

    ratio: PairedRatio
    own: tuple[Finding, ...]

    @property
    def validity(self) -> Validity:
        return "not valid" if self.own else self.ratio.validity

    @property
    def ranked(self) -> bool:
        """Whether it may be compared."""
        return self.validity != "not valid"


def by_turns(
    group: Group,
    reference: Group,
    runs: Mapping[str, Run],
    rates: Mapping[str, Rates],
    names: tuple[str, str] = ("", ""),
    *,
    level: float = 0.95,
) -> tuple[ByTurns, ...]:
    """The ratios of `group` to `reference` over the repeats in which both took turns; none where none did.

    `runs`, `rates`: the runs that were paired and the rates of their slices, by id of the run. `names`: of the two.
    """
    pairings = {id: run.sections.pairing for id, run in runs.items() if run.sections.pairing}
    by_pairing = {pairings[run.run].id: run for run in reference.runs if run.run in rates}
    members = [
        (run, by_pairing[key]) for run in group.runs if run.run in rates and (key := pairings[run.run].id) in by_pairing
    ]
    if not members:
        return ()
    points = [pairings[run.run].points for run, _ in members]
    sides = [run for pair in members for run in pair]
    own = tuple(finding for run in sides for finding in run.disqualified if not leaves_rates(finding))
    metrics = [name for name in rates[members[0][0].run] if all(name in rates[run.run] for run in sides)]
    pairs = {name: [(rates[above.run][name], rates[below.run][name]) for above, below in members] for name in metrics}
    looks = max(len(looks_s(run.spec.protocol)) for run in runs.values())
    return tuple(
        ByTurns(paired_ratio(pairs[name], points, names=(*names, name), level=level, looks=looks), own)
        for name in metrics
    )


def leaves_rates(finding: Finding) -> bool:
    """Whether a finding says nothing against a ratio of rates: what disturbed the machine, which met both sides, and
    chunks whose own times were lost though the kernel's hold, as a slice has its tokens and its two ends all the same.
    """
    only_merged = finding.because and all(each.code == "chunks-merged" for each in finding.because)
    return finding.code == "disturbed" or (finding.code == "client-limit" and bool(only_merged))


# Width of the ratios between points that take turns, while they do: whether their rounds may end.


def widest(points: Sequence[SliceRates], looks: int) -> float:
    """How far, as a share of it, a bound of the least known ratio between any two points lies from it; infinite where
    one has no interval, drifts, or could hide a drift.

    `points`: the slices of one repeat, whose interval is asked so surely that `looks` of them hold together.
    """
    found = [paired_ratio([(a, b)], [len(points)], looks=looks) for a, b in combinations(points, 2)]
    return max(math.inf if each.validity != "valid" else _half(each.ratio.low, each.ratio.high) for each in found)


def _half(low: float | None, high: float | None) -> float:
    return math.sqrt(high / low) - 1 if low and high else math.inf
