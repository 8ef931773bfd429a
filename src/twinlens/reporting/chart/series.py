"""Rows made small enough to draw: extremes kept, quantiles instead of every value."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from twinlens.record.run import Run
from twinlens.spec.workload.workload import CollectiveWorkload
from twinlens.stats.summary.group import Summary

Floats = NDArray[np.float64]
MOST_POINTS = 500


def thin(x: Floats, y: Floats, most: int = MOST_POINTS) -> tuple[Floats, Floats]:
    """At most `most` points of a series [n]: the least and greatest of each of `most`/2 stretches, in order.

    A stall of one row stays visible however long the run was.
    """
    if x.size <= most:
        return x, y
    edges = np.linspace(0, x.size, most // 2 + 1).astype(np.int64)
    kept: list[int] = []
    for begin, end in pairwise(edges):
        stretch = y[begin:end]
        kept += sorted({int(begin + stretch.argmin()), int(begin + stretch.argmax())})
    return x[kept], y[kept]


def distribution(values: Floats, most: int = 160) -> tuple[Floats, Floats]:
    """The empirical distribution of values [n] as (value, share at or below), at `most` heights at most."""
    ordered = np.sort(values)
    ranks = np.arange(1, ordered.size + 1)
    if ordered.size > most:
        chosen = np.unique(np.round(np.linspace(0, ordered.size - 1, most)).astype(np.int64))
        ordered, ranks = ordered[chosen], ranks[chosen]
    return ordered, ranks / values.size


def throughput(run: Run) -> tuple[Floats, Floats]:
    """(end in s, work per second) of each row: a step, a batch of requests, or the bytes of an exchange on
    the bus. Shapes: (n,), (n,)."""
    if run.lens == "training":
        steps = run.steps.where(run.steps.kind == "step")
        work = steps.tokens if steps.tokens.any() else steps.samples
        return steps.end_ns / 1e9, _rate(work, steps.end_ns - steps.begin_ns)
    if run.lens == "collective":
        exchanges, workload = run.exchanges, run.spec.workload
        assert isinstance(workload, CollectiveWorkload)
        if not len(exchanges):
            return np.empty(0), np.empty(0)
        moved = workload.size_bytes * workload.bus_factor(exchanges.rank_ns.shape[1])
        return exchanges.end_ns / 1e9, _rate(np.full(len(exchanges), moved), exchanges.slowest_ns)
    rows = run.requests
    if not len(rows):
        return np.empty(0), np.empty(0)
    work = rows.output_tokens if rows.output_tokens.any() else np.ones(len(rows))
    # A batch is one observation: its tokens together, from its first send to its last end.
    order = np.argsort(rows.group, kind="stable")
    starts = np.flatnonzero(np.diff(rows.group[order], prepend=rows.group[order[0]] - 1))
    begin = np.minimum.reduceat(rows.sent_ns[order], starts)
    end = np.maximum.reduceat(rows.end_ns[order], starts)
    total = np.add.reduceat(np.asarray(work, dtype=np.float64)[order], starts)
    in_time = np.argsort(end, kind="stable")
    return end[in_time] / 1e9, _rate(total, end - begin)[in_time]


def steady_times(pairs: Iterable[tuple[Run, Summary]], name: str) -> Floats:
    """One time in s per steady row of all runs: "step", "ttft", "tpot" or "e2e", where the row has it."""
    times = [_times(run, summary, name) for run, summary in pairs]
    return np.concatenate(times) if times else np.empty(0)


def _times(run: Run, summary: Summary, name: str) -> Floats:
    begin_s, end_s = summary.verdict.begin_s, summary.verdict.end_s
    if run.lens == "training":
        steps = run.steps
        kept = (steps.kind == "step") & _within(steps.begin_ns, steps.end_ns, begin_s, end_s)
        return np.asarray((steps.end_ns - steps.begin_ns)[kept] / 1e9, dtype=np.float64)
    rows = run.requests
    kept = rows.ok & _within(rows.sent_ns, rows.end_ns, begin_s, end_s)
    first = rows.first_chunk_ns()
    with np.errstate(invalid="ignore", divide="ignore"):
        all_times = {
            "ttft": first - rows.intended_ns,
            "tpot": (rows.end_ns - first) / np.where(rows.output_tokens > 1, rows.output_tokens - 1, np.nan),
            "e2e": (rows.end_ns - rows.intended_ns).astype(np.float64),
        }
    values = all_times[name][kept] / 1e9
    return np.asarray(values[np.isfinite(values)], dtype=np.float64)


def _within(begin_ns: Floats, end_ns: Floats, begin_s: float, end_s: float) -> NDArray[np.bool_]:
    slack = 1e-6  # seconds are rounded nanoseconds
    inside = (begin_ns / 1e9 >= begin_s - slack) & (end_ns / 1e9 <= end_s + slack)
    return np.asarray(inside) if inside.any() else np.ones(len(begin_ns), dtype=bool)


def _rate(work: Floats, took_ns: Floats) -> Floats:
    return np.asarray(work, dtype=np.float64) / np.maximum(np.asarray(took_ns, dtype=np.float64) / 1e9, 1e-9)
