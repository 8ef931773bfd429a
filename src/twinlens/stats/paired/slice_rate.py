"""Rates of slices, the time they leave empty, and which of their rounds were calm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from twinlens.record.column import spans_of
from twinlens.record.finding import Finding
from twinlens.record.request import Requests
from twinlens.record.samples import FOREIGN_SHARE
from twinlens.record.step import Steps
from twinlens.stats.estimator.interval import t_quantile
from twinlens.stats.estimator.ratio import welch

_FEWEST_SLICES, _FEWEST_ROWS = 8, 4  # to say that first rows are slower, and to go by the others
_LEVEL = 0.99


@dataclass(frozen=True, slots=True)
class SliceRates:
    """Measured slices of one run, in order: their numbers (from 0), work per second, and whether others disturbed
    them, each [n]."""

    slices: np.ndarray
    rates: np.ndarray
    disturbed: np.ndarray


Rates = Mapping[str, SliceRates]


def training_slices(steps: Steps, telemetry: pa.Table) -> dict[str, SliceRates]:
    """Tokens (or images) per second of each slice, under the id of the headline rate."""
    chosen = (steps.kind == "step") & (steps.slice >= 0)
    work = steps.tokens if steps.tokens.any() else steps.samples
    name = "training_tokens_per_s" if steps.tokens.any() else "training_images_per_s"
    return _rates(name, steps.slice[chosen], work[chosen], steps.begin_ns[chosen], steps.end_ns[chosen], telemetry)


def inference_slices(requests: Requests, telemetry: pa.Table, *, in_lockstep: bool = True) -> dict[str, SliceRates]:
    """Output tokens (or images) per second of each slice, under their metrics' ids; and what decode alone did, which
    only batches that decode together show (`in_lockstep`)."""
    known = requests.slice >= 0
    chosen = known & requests.ok
    tokens = requests.output_tokens.any()
    work = np.where(requests.ok, requests.output_tokens if tokens else 1, 0)
    name = "output_tokens_per_s" if tokens else "inference_images_per_s"
    # The time of a slice is that of all its requests, failed ones too.
    rates = _rates(
        name, requests.slice[known], work[known], requests.intended_ns[known], requests.end_ns[known], telemetry
    )
    many = chosen & (requests.output_tokens > 1)
    if not in_lockstep or not tokens or not many.any():
        return rates
    first, last = requests.first_chunk_ns(), requests.last_chunk_ns()
    # Requests of one batch decode together: their time counts once, as that of their first.
    _, heads = np.unique(requests.group, return_index=True)
    is_head = np.zeros(len(requests), bool)
    is_head[heads] = True
    decode_s = _sums(requests.slice[many], np.where(is_head[many], last[many] - first[many], 0.0)) / 1e9
    decoded = _sums(requests.slice[many], requests.output_tokens[many] - 1)
    slices = np.unique(requests.slice[many]).astype(np.int64)
    if (decode_s > 0).all():
        marks = _disturbed(
            slices, requests.slice[known], requests.intended_ns[known], requests.end_ns[known], telemetry
        )
        rates["decode_tokens_per_s"] = SliceRates(slices, decoded / decode_s, marks)
    return rates


def phase_slices(requests: Requests, telemetry: pa.Table, *, in_lockstep: bool) -> dict[str, SliceRates]:
    """Prompt tokens per second of prefill, of batches in lockstep; tokens per second of the time in which at least one
    request decoded, of requests under load, whose prefill only the server can tell from its queue."""
    chosen = (requests.slice >= 0) & (requests.outcome == "ok") & (requests.output_tokens > (0 if in_lockstep else 1))
    if not chosen.any():
        return {}
    number, first, last = requests.slice[chosen], requests.first_chunk_ns()[chosen], requests.last_chunk_ns()[chosen]
    slices = np.unique(number).astype(np.int64)
    if in_lockstep:
        _, heads = np.unique(requests.group[chosen], return_index=True)
        spent_ns = np.bincount(
            np.searchsorted(slices, number[heads]), (first - requests.sent_ns[chosen])[heads], len(slices)
        )
        name, done = "prefill_tokens_per_s", _sums(number, requests.input_tokens[chosen])
    else:
        spent_ns = np.array([_covered(first[number == one], last[number == one]) for one in slices])
        name, done = "decode_tokens_per_s", _sums(number, requests.output_tokens[chosen] - 1)
    if not (spent_ns > 0).all():
        return {}
    marks = _disturbed(slices, number, requests.intended_ns[chosen], requests.end_ns[chosen], telemetry)
    return {name: SliceRates(slices, done / (spent_ns / 1e9), marks)}


def _covered(begin: np.ndarray, end: np.ndarray) -> float:
    """The length of the union of spans."""
    order = np.argsort(begin, kind="stable")
    begin, reached = begin[order], np.maximum.accumulate(end[order])
    return float((reached - np.maximum(begin, np.concatenate([begin[:1], reached[:-1]]))).clip(0).sum())


def _rates(
    name: str, number: np.ndarray, work: np.ndarray, begin_ns: np.ndarray, end_ns: np.ndarray, telemetry: pa.Table
) -> dict[str, SliceRates]:
    if not number.size:
        return {}
    slices, begin, end = spans_of(number, begin_ns, end_ns)
    rates = _sums(number, work) / np.maximum((end - begin) / 1e9, 1e-9)
    whole = slices.astype(np.int64)
    rates = _warm(number, work, begin_ns, end_ns, rates)
    return {name: SliceRates(whole, rates, _disturbed(whole, number, begin_ns, end_ns, telemetry))}


def _warm(
    number: np.ndarray, work: np.ndarray, begin_ns: np.ndarray, end_ns: np.ndarray, rates: np.ndarray
) -> np.ndarray:
    """`rates` [slices] without the first row of each slice, where first rows are slower by more than chance.

    They follow a wait and find cold caches. Rows that begin together are one. As they were, where rows overlap, and
    where slices are too few or too short to say.
    """
    order = np.lexsort((begin_ns, number))
    number, begin, end, done = number[order], begin_ns[order], end_ns[order], np.asarray(work, dtype=float)[order]
    heads = np.flatnonzero(np.append(True, (np.diff(number) != 0) | (np.diff(begin) != 0)))
    number, begin = number[heads], begin[heads]
    end, done = np.maximum.reduceat(end, heads), np.add.reduceat(done, heads)
    firsts = np.flatnonzero(np.append(True, np.diff(number) != 0))
    counts = np.diff(np.append(firsts, number.size))
    within = np.diff(number) == 0
    if firsts.size < _FEWEST_SLICES or counts.min() < _FEWEST_ROWS or (begin[1:] < end[:-1])[within].any():
        return rates
    last_ns, second_ns = np.maximum.reduceat(end, firsts), begin[firsts + 1]
    rest, rest_s = np.add.reduceat(done, firsts) - done[firsts], (last_ns - second_ns) / 1e9
    first_s = (second_ns - begin[firsts]) / 1e9
    if min(rest.min(), done[firsts].min(), rest_s.min(), first_s.min()) <= 0:
        return rates
    slower = np.log(first_s / done[firsts] * rest / rest_s)
    half = t_quantile(_LEVEL, slower.size - 1) * float(slower.std(ddof=1)) / math.sqrt(slower.size)
    return np.asarray(rest / rest_s) if slower.mean() > half else rates


def _sums(number: np.ndarray, amount: np.ndarray) -> np.ndarray:
    _, place = np.unique(number, return_inverse=True)
    return np.bincount(place, amount)


def _disturbed(
    wanted: np.ndarray, number: np.ndarray, begin_ns: np.ndarray, end_ns: np.ndarray, telemetry: pa.Table
) -> np.ndarray:
    """Whether other programs took more than `FOREIGN_SHARE` of the processors, on average over a slice's samples."""
    slices, begin, end = spans_of(number, begin_ns, end_ns)
    foreign = np.asarray(telemetry.column("foreign_cpu").to_numpy(zero_copy_only=False), dtype=float)
    time_ns = telemetry.column("time_ns").to_numpy()
    marks = np.zeros(len(wanted), bool)
    for index, wanted_slice in enumerate(wanted):
        place = int(np.searchsorted(slices, wanted_slice))
        # The sample that ends a slice is taken just after it, and says what happened in it.
        until = begin[place + 1] if place + 1 < len(begin) else np.iinfo(np.int64).max
        shares = foreign[(time_ns > begin[place]) & (time_ns <= max(int(end[place]), int(until) - 1))]
        shares = shares[np.isfinite(shares)]
        marks[index] = bool(shares.size) and float(shares.mean()) > FOREIGN_SHARE
    return marks


# The share of slot time left empty in a closed loop's slices, as each slice is drained before the next turn.

LEAST_EMPTY = 0.01
MOST_EMPTY = 0.10  # as much as may hide in a ranked rate (docs/decisions/0015): above it the note is a warning


def empty_slots(requests: Requests, concurrency: int) -> Iterable[Finding]:
    """A note where a closed loop was played in slices, a warning where its slots stood empty for a tenth of them.

    The share is that of slot-seconds: 1 - (time that requests were under way) / (concurrency x time of the slices).
    """
    rows = requests.slice >= 0
    if not rows.any():
        return
    begin, end = requests.intended_ns[rows], requests.end_ns[rows]
    _, first, last = spans_of(requests.slice[rows], begin, end)
    slot_ns = concurrency * float((last - first).sum())
    if slot_ns <= 0:
        return
    share = max(0.0, 1 - float((end - begin).sum()) / slot_ns)
    numbers = {"share": share, "slots": concurrency, "slices": int(first.size)}
    if share >= LEAST_EMPTY:
        yield Finding("empty-slots", "warns" if share > MOST_EMPTY else "notes", "", numbers)


# Calm rounds and those beside other programs: whether both sides suffer alike, and which rounds a ratio is taken of.
#
# Turns make disturbances meet both sides, not hurt them alike: a memory-bound side may lose 1.9-fold beside a neighbour
# where a compute-bound one loses 1.4-fold, and a ratio over all rounds is then of neither machine.

_FEWEST_EACH = 3  # rounds, calm and disturbed: a spread needs as many
_ALIKE_LEVEL = 0.99  # one ratio in a hundred whose sides suffer alike may be said to suffer unequally
_DELTA = 0.01  # a difference of less decides nothing

Blocks = NDArray[np.float64]
Marks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Suffering:
    """Calm rounds against those beside other programs. `kept`: log ratios of each repeat that the ratio is taken of.

    `calm`: how many were, of `of`; `beside`: the ratio of the others, as a factor; `change`: how far that lies from the
    calm one, relatively, and `visible`: from how far on it would have shown; None where either has fewer than three
    rounds. `is_calm`: only calm rounds are kept.
    """

    kept: tuple[Blocks, ...]
    calm: int
    of: int
    beside: float | None
    change: float | None
    visible: float | None
    is_calm: bool

    @property
    def is_unequal(self) -> bool:
        """Whether the two differ by more than chance and by more than a hundredth."""
        if self.change is None or self.visible is None:
            return False
        return abs(math.log1p(self.change)) > max(math.log1p(self.visible), math.log1p(_DELTA))

    @property
    def is_blind(self) -> bool:
        """Whether too few rounds were calm to see how the others differ."""
        return self.visible is None and not self.is_calm and self.of - self.calm >= _FEWEST_EACH

    @property
    def hidden(self) -> float:
        """By what share the rounds that are kept may be off, though it does not show."""
        if self.is_calm or self.visible is None:
            return 0.0
        return self.visible * (1 - self.calm / self.of)


def suffering(series: Sequence[Blocks], disturbed: Sequence[Marks], fewest: int) -> Suffering:
    """`series`: log ratios of each repeat [rounds]; `disturbed`: in which of them other programs ran.

    Calm rounds alone are kept where every repeat has `fewest` of them; else all.
    """
    calm = [blocks[~marks] for blocks, marks in zip(series, disturbed, strict=True)]
    beside = [blocks[marks] for blocks, marks in zip(series, disturbed, strict=True)]
    count, of = sum(each.size for each in calm), sum(each.size for each in series)
    is_calm = count < of and bool(calm) and min(each.size for each in calm) >= fewest
    met = np.concatenate(beside) if beside else np.empty(0)
    change = visible = None
    if min(count, met.size) >= _FEWEST_EACH:
        # Within repeats, as these may differ; the mean of a repeat that has only one of the two says nothing.
        levels = [blocks.mean() for blocks in series]
        sides = [
            np.concatenate([each - level for each, level in zip(side, levels, strict=True)]) for side in (beside, calm)
        ]
        gap = float(sides[0].mean() - sides[1].mean())
        error, freedom = welch(*sides)
        half = t_quantile(_ALIKE_LEVEL, max(1.0, freedom)) * error if error else 0.0
        change, visible = math.expm1(gap), math.expm1(min(half, 700.0))
    known = float(np.exp(met.mean())) if met.size else None
    return Suffering(tuple(calm if is_calm else series), count, of, known, change, visible, is_calm)
