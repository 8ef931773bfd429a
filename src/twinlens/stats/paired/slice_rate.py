"""Rates of a point in each of its slices: work over its own time, as pure functions of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from twinlens.record.column import spans_of
from twinlens.record.request import Requests
from twinlens.record.step import Steps
from twinlens.stats.estimator.interval import t_quantile

_FEWEST_SLICES, _FEWEST_ROWS = 8, 4  # to say that first rows are slower, and to go by the others
_LEVEL = 0.99
FOREIGN_SHARE = 0.05  # of the machine's processors: less is within the noise of most runs


@dataclass(frozen=True, slots=True)
class SliceRates:
    """Measured slices of one run, in order: their numbers (from 0), work per second, and whether others disturbed
    them, each [n]."""

    slices: np.ndarray
    rates: np.ndarray
    disturbed: np.ndarray


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
