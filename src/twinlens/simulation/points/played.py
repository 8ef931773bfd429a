"""Results of a schedule played in virtual time: rows as a client would write them, and what the engines did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from twinlens.simulation.work import Floats

TOO_LONG = "longer than the context that the engine takes"
STOPPED = "under way when the simulation was stopped"
NS = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """Rows with REQUEST_SCHEMA. `preemptions`: of all requests; `cached_tokens`: of prompts, that a prefix cache had.

    `queue_s`: mean seconds between the moment when a request was due and its first step, None where nothing started.
    `unfinished`: requests under way at the horizon. `steps`: of the engine, in `busy_s` of the `span_s` until its last
    step. `full`: the share of `span_s` in which as many requests ran as may. Of a fleet, `steps` are of all replicas,
    `busy_s` and `full` their mean. `pools`: figures of pools by their id, where there are two.
    """

    table: pa.Table
    preemptions: int
    cached_tokens: int
    queue_s: float | None
    unfinished: int
    steps: int
    busy_s: float
    span_s: float
    full: float
    pools: Mapping[str, float] = field(default_factory=dict)


def engine_time(start_s: Floats, end_s: Floats, stop_s: float, seats: int) -> tuple[float, float]:
    """Seconds in which at least one request was in the engine, and in which `seats` were."""
    started = ~np.isnan(start_s)
    begins, ends = start_s[started], np.nan_to_num(end_s[started], nan=stop_s)
    times = np.concatenate([begins, ends])
    order = np.argsort(times, kind="stable")
    there = np.cumsum(np.repeat([1, -1], [len(begins), len(ends)])[order])
    lasts = np.diff(times[order], append=times.max(initial=0.0))
    return float(lasts[there > 0].sum()), float(lasts[there >= seats].sum())
