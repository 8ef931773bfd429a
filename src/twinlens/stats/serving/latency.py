"""Latencies of requests, what they waited for, and how many share the server at once.

Definitions (words.md): TTFT from the intended time to the first token, reasoning included; TTFAT to the first one after
it; TPOT = (last - first token) / (output tokens - 1), one value per request; ITL = gaps between consecutive tokens,
pooled. Whatever is not "ok" is `inf` throughout, also where its first tokens came: so a burst of errors never makes a
latency look better.

An answer of several tokens that came at one moment says nothing of the time between them: it has no TPOT and no gaps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.schedule.admission import Held, held
from twinlens.spec.point import Point
from twinlens.stats.estimator.interval import Queue, mean_interval, queue
from twinlens.stats.estimator.quantile import censored_quantile
from twinlens.stats.estimator.rate import MOST_WAITING
from twinlens.stats.serving.window import Window
from twinlens.stats.steady.slope import in_flight, released_ns
from twinlens.units import SECONDS

# The number of requests that share the server at once, and the length of run that an interval of waits needs.

# A queue of N requests lasts for some N² arrivals before it is another one, and some 400 such times show how long.
_TIMES = 400


@dataclass(frozen=True, slots=True)
class Overlap:
    """`together`: requests that share one moment, so that neighbours in time are one observation. `why_not`: why no
    interval within the run can rest on its requests; "" where one can. `waiting`: where arrivals do not wait for
    answers, the requests in flight when each was due, and how long they resemble themselves."""

    together: int = 1
    why_not: str = ""
    waiting: Queue | None = None


def overlap(requests: Requests, window: Window) -> Overlap:
    """Dependence among the requests of a window.

    In a closed loop as many are always under way: its streams, which end together where a batch decodes in step.
    Where arrivals do not wait for answers their number wanders, and with it every latency. How far cannot be seen in
    the latencies of many servers, where the noise of single requests hides it; the number in flight bounds it.
    """
    if window.end_ns <= window.begin_ns:
        return Overlap(why_not="the window has no length")
    at_once = mean_in_flight(requests, window)
    if window.loop == "closed":
        return Overlap(together=max(1, round(at_once)))
    wanted, n = math.ceil(_TIMES * at_once**2), window.rows.size
    rows = window.rows
    is_few = n <= MOST_WAITING
    waiting = queue(in_flight_when_due(requests.intended_ns[rows], requests.end_ns[rows])) if is_few else None
    if n >= wanted:
        return Overlap(waiting=waiting)
    why_not = f"with {at_once:.2g} requests in flight it takes some {wanted:,} to see how long a queue lasts"
    return Overlap(why_not=why_not, waiting=waiting)


def in_flight_when_due(intended: np.ndarray, end: np.ndarray) -> np.ndarray:
    """How many earlier requests of [n] in order of intent had not ended when each was due; `inf` ends never do."""
    ended = np.searchsorted(np.sort(end), intended, side="right")
    return np.asarray(np.arange(intended.size) - ended, dtype=np.float64)


def mean_in_flight(requests: Requests, window: Window) -> float:
    """Requests between intent and end, the mean over the window."""
    edges = np.array([window.begin_ns, window.end_ns])
    return float(in_flight(requests.intended_ns, requests.end_ns, edges)[0])


# Up to one token in a thousand may share its chunk: a tenth of what p99 of the gaps looks at.
MOST_MERGED = 0.001
# Up to one answer in a hundred may have come at one moment: a p99 looks at as many.
MOST_AT_ONCE = 0.01
# What follows the first chunk came with it if it took less than a hundredth of the wait for that chunk, and each token
# less than a hundred-thousandth (after 20 s in a queue, 0.2 ms): the packets of one long write lie microseconds apart.
_BESIDE_WAIT, _TOKEN_BESIDE_WAIT = 0.01, 1e-5
_CHUNKS_AT_ONCE = 1 << 17
_MOST_GAPS = 1 << 20  # a million gaps show any p99; above that whole requests are taken at even steps


@dataclass(frozen=True, slots=True)
class Latency:
    """Per request, in the order of the rows asked for, shape (rows,), seconds; `inf` where it failed.

    `ttfat_s`: until the first token that is no reasoning, `inf` also where an answer was reasoning alone.
    `tpot_s` is NaN for answers of one token, and for those of several that came at one moment.
    `why_unstreamed`: why nothing can be said of the time between tokens (`unstreamed`), "" where it can.
    `longest_gap_s` is the longest wait between two chunks, 0 for one chunk.
    `held_s` is what an admission policy kept it (NaN without one), `client_s` what the client was late after that,
    `lag_s` both together: these are known of failed requests too (NaN where nothing was ever sent).
    """

    ok: np.ndarray
    ttft_s: np.ndarray
    ttft_from_send_s: np.ndarray
    ttfat_s: np.ndarray
    tpot_s: np.ndarray
    longest_gap_s: np.ndarray
    e2e_s: np.ndarray
    e2e_from_send_s: np.ndarray
    held_s: np.ndarray
    client_s: np.ndarray
    lag_s: np.ndarray
    why_unstreamed: str


def latency(requests: Requests, rows: np.ndarray) -> Latency:
    """The latencies of `rows` (indexes), in their order."""
    first_ns, last_ns = requests.first_chunk_ns()[rows], requests.last_chunk_ns()[rows]
    intended, sent, end = requests.intended_ns[rows], requests.sent_ns[rows], requests.end_ns[rows]
    ok = requests.ok[rows] & ~np.isnan(first_ns)
    tokens = requests.output_tokens[rows]
    everywhere = _came_at_once(requests)
    whole = everywhere[rows]
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot_s = np.where((tokens > 1) & ~whole, (last_ns - first_ns) / (tokens - 1) / 1e9, np.nan)
    ttft_s = _or_never(ok, (first_ns - intended) / 1e9)
    lag_s = np.where(sent < intended, np.nan, sent - intended) / 1e9
    was_held = not np.isnan(requests.released_ns).all()
    return Latency(
        ok=ok,
        ttft_s=ttft_s,
        ttft_from_send_s=_or_never(ok, (first_ns - sent) / 1e9),
        ttfat_s=_until_answer_s(requests, rows, ok) if (requests.reasoning_chunks > 0).any() else ttft_s,
        tpot_s=_or_never(ok, tpot_s),
        longest_gap_s=_or_never(ok, _longest_gap_s(requests)[rows]),
        e2e_s=_or_never(ok, (end - intended) / 1e9),
        e2e_from_send_s=_or_never(ok, (end - sent) / 1e9),
        held_s=(requests.released_ns[rows] - intended) / 1e9 if was_held else np.broadcast_to(np.nan, rows.size),
        client_s=sent_late_s(requests, rows) if was_held else lag_s,
        lag_s=lag_s,
        why_unstreamed=unstreamed(requests, everywhere),
    )


def unstreamed(requests: Requests, at_once: np.ndarray | None = None) -> str:
    """Why nothing can be said of the time between tokens: too many answers of the run came at one moment, whatever the
    window; "" where it can. `at_once`: which did, where that is known already."""
    whole = int((_came_at_once(requests) if at_once is None else at_once).sum())
    several = int((requests.ok & (requests.output_tokens > 1)).sum())
    if whole <= MOST_AT_ONCE * several:
        return ""
    return f"{whole:,} of {several:,} answers came whole at one moment, not token by token"


def _came_at_once(requests: Requests) -> np.ndarray:
    """Which answers of several tokens came at one moment. Shape (all rows,)."""
    tokens, first_ns = requests.output_tokens, requests.first_chunk_ns()
    rest_ns = requests.last_chunk_ns() - first_ns
    wait_ns = first_ns - requests.sent_ns
    near = (rest_ns <= _BESIDE_WAIT * wait_ns) & (rest_ns < _TOKEN_BESIDE_WAIT * wait_ns * (tokens - 1))
    return np.asarray(requests.ok & (tokens > 1) & ((rest_ns == 0) | near))


def _until_answer_s(requests: Requests, rows: np.ndarray, ok: np.ndarray) -> np.ndarray:
    answer_ns = requests.first_answer_ns()[rows]
    return _or_never(ok & ~np.isnan(answer_ns), (answer_ns - requests.intended_ns[rows]) / 1e9)


def sent_late_s(requests: Requests, rows: np.ndarray) -> np.ndarray:
    """How late the client sent each of `rows`, from when a policy let it go; NaN where nothing was sent.

    A connection that never came about has no time of sending; its row holds one from before the run.
    """
    sent = requests.sent_ns[rows]
    late_ns = np.where(sent < requests.intended_ns[rows], np.nan, sent - released_ns(requests)[rows])
    return np.asarray(late_ns / 1e9)


def gaps_s(requests: Requests, rows: np.ndarray) -> np.ndarray:
    """Gaps between consecutive chunks of `rows`, pooled, in the order of time in which they ended; seconds.

    A step of a batching server is one gap of each request in it. In order of time these copies stand side by side,
    where it can be seen that they are one step and not as many; in order of rows they would look independent.
    A request that failed has its gaps, and one endless gap for every token that was asked for and never came (at
    least one), at its end. Beyond a million gaps, whole requests at even steps.
    """
    counts = np.diff(requests.offsets)
    total = int(counts[rows].sum())
    rows = rows[:: max(1, -(-total // _MOST_GAPS))]
    failed = ~requests.ok[rows]
    chunks = counts[rows]
    asked = np.where(np.isnan(requests.asked_tokens[rows]), 0, requests.asked_tokens[rows])
    lost = np.where(failed, np.maximum(1, asked - np.maximum(1, chunks)), 0).astype(np.int64)
    real = np.maximum(0, chunks - 1)
    owner = np.repeat(np.arange(rows.size), real + lost)
    begin = np.cumsum(real + lost) - (real + lost)
    place = np.arange(owner.size) - begin[owner]
    is_real = place < real[owner]
    gaps = np.full(owner.size, np.inf)
    chunk = requests.offsets[:-1][rows][owner[is_real]] + place[is_real]
    gaps[is_real] = (requests.chunk_ns[chunk + 1] - requests.chunk_ns[chunk]) / 1e9
    ended_ns = requests.end_ns[rows][owner]
    ended_ns[is_real] = requests.chunk_ns[chunk + 1]
    return np.asarray(gaps[np.argsort(ended_ns, kind="stable")])


def decoding(requests: Requests, rows: np.ndarray, gaps: np.ndarray) -> int:
    """How many of `rows` decode at once, so that their `gaps_s` end with one step: all gaps over the time they span."""
    chunks = requests.chunk_ns
    heard = rows[np.diff(requests.offsets)[rows] > 0]
    if not heard.size:
        return 1
    span_ns = int(chunks[requests.offsets[1:][heard] - 1].max()) - int(chunks[requests.offsets[:-1][heard]].min())
    return max(1, round(float(gaps[np.isfinite(gaps)].sum()) / (span_ns / 1e9))) if span_ns > 0 else 1


def chunking(requests: Requests, rows: np.ndarray) -> tuple[Literal["itl", "icl"], str]:
    """Whether gaps between chunks are gaps between tokens ("itl") or not ("icl"), and why not.

    They are where chunks and tokens of the answered requests agree in number to one in a thousand, or where every
    answer has exactly one chunk less: the end-of-text token, which `usage` counts and nobody is sent.
    """
    good = rows[requests.ok[rows]]
    chunks = np.diff(requests.offsets)[good]
    tokens = requests.output_tokens[good]
    short = tokens - chunks
    if not good.size or (short == 1).all() or np.abs(short).sum() <= MOST_MERGED * tokens.sum():
        return "itl", ""
    return "icl", f"{int(tokens.sum())} tokens came in {int(chunks.sum())} chunks, so the gaps are between chunks"


def _longest_gap_s(requests: Requests) -> np.ndarray:
    """The longest gap between chunks of each row, 0 where there is none. Shape: (all rows,). Some rows at a time, so
    that they stay in the cache."""
    offsets, longest = requests.offsets, np.zeros(len(requests))
    step = max(1, int(_CHUNKS_AT_ONCE * len(requests) / max(1, requests.chunk_ns.size)))
    for begin in range(0, len(requests), step):
        bounds = offsets[begin : begin + step + 1]
        starts = bounds[:-1] - bounds[0]
        times_ns = requests.chunk_ns[int(bounds[0]) : int(bounds[-1])]
        gaps_ns = np.diff(times_ns, prepend=times_ns[:1])
        has = np.diff(bounds) > 0
        gaps_ns[starts[has]] = 0  # the gap to the last chunk of the row before is not one
        if has.any():
            longest[begin : begin + step][has] = np.maximum.reduceat(gaps_ns, starts[has])
    return longest / 1e9


def _or_never(ok: np.ndarray, values: np.ndarray) -> np.ndarray:
    return values if ok.all() else np.where(ok, values, np.inf)


# Reasons why an admission policy held requests back: queued, blocked by the batch before, or gathering a batch.

WAITS = ("queued_s", "blocked_s", "gathering_s")
"""The three parts of a hold, in this order; their means add up to the mean hold."""


def waits(requests: Requests, rows: np.ndarray, point: Point, shared: Overlap = Overlap()) -> dict[str, Estimate]:
    """Mean and p99 of each part over `rows` (indexes); empty where no policy held anything back.

    Batches are taken apart over all rows of the run, as the one before a row may lie outside the window.
    """
    known = np.flatnonzero(~np.isnan(requests.released_ns))
    wanted = np.isin(known, rows)
    if point.admission is None or not wanted.any():
        return {}
    parts = _parts(requests, known, point)
    metrics: dict[str, Estimate] = {}
    suffix = "; requests of the window, in order of release"
    for name, part_ns in zip(WAITS, (parts.queued_ns, parts.blocked_ns, parts.gathering_ns), strict=True):
        values = np.maximum(part_ns[wanted], 0) / 1e9
        mean = mean_interval(values, unit=SECONDS, method_suffix=suffix, why_not=shared.why_not)
        metrics[f"{name}_mean"] = mean if mean.low is None else replace(mean, low=max(0.0, mean.low))
        metrics[f"{name}_p99"] = censored_quantile(
            values, 0.99, unit=SECONDS, what="requests", together=shared.together, why_not=shared.why_not
        )
    return metrics


def _parts(requests: Requests, known: np.ndarray, point: Point) -> Held:
    intended, released = requests.intended_ns[known], requests.released_ns[known].astype(np.int64)
    if point.admission == "continuous":  # it holds back only while every place is taken
        nothing = np.zeros(known.size, dtype=np.int64)
        return Held(released - intended, nothing, nothing)
    return held(requests.group[known], intended, released, requests.end_ns[known], point.batch)
