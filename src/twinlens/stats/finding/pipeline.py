"""The idle share of a pipeline's ranks, from the rows, beside the bubble that theory predicts for its schedule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlens.record.column import lists, numbers
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.stats.estimator.rate import rate_interval
from twinlens.units import RATIO

_OF_SCHEDULE = ("forward", "backward")
_OUTSIDE = ("data", "optimize")


def bubble(table: pa.Table, predicted: Estimate, begin_s: float, end_s: float, microbatches: Any) -> Finding | None:
    """Of the steps within a window, in seconds from the start of the run; None where the ranks' phases are not known.

    `microbatches`: of a step, as recorded.
    """
    inside = pc.and_(
        pc.equal(table["kind"], "step"),
        pc.and_(
            pc.greater_equal(table["begin_ns"], math.floor(begin_s * 1e9)),
            pc.less_equal(table["end_ns"], math.ceil(end_s * 1e9)),
        ),
    )
    rows = table.filter(pc.and_(inside, pc.is_valid(table["rank_forward_ns"])))
    if not len(rows):
        return None
    stages = len(rows["rank_forward_ns"][0])
    idle = idle_share(rows)
    found = {"stages": stages, "microbatches": microbatches, "idle": idle.value, "predicted": predicted.value}
    evidence = {"idle_share": idle, "predicted_bubble_share": predicted}
    return Finding("pipeline-bubble", "notes", "", found, evidence)


def idle_share(rows: pa.Table) -> Estimate:
    """Time of the ranks in neither forward nor backward, over the time of the schedule: a step without data and
    optimizer, of all ranks. Transfers, waiting for neighbours and for processor cores are all in it."""
    span_ns = (numbers(rows["end_ns"]) - numbers(rows["begin_ns"]))[:, None]
    scheduled = np.maximum(span_ns - sum(_ranks(rows, name) for name in _OUTSIDE), 0)
    idle = np.clip(scheduled - sum(_ranks(rows, name) for name in _OF_SCHEDULE), 0, None)
    clock = np.concatenate([[0], np.cumsum(scheduled.sum(axis=1))])
    name = "time of ranks in neither forward nor backward / time of the schedule"
    return rate_interval(idle.sum(axis=1) / 1e9, clock[:-1], clock[1:], unit=RATIO, name=name)


def _ranks(rows: pa.Table, phase: str) -> np.ndarray:
    """(steps, ranks) in ns."""
    return lists(rows[f"rank_{phase}_ns"])[1].reshape(len(rows), -1)
