"""Reasons of labels, as findings with the numbers that decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinlens.record.finding import Finding, Severity
from twinlens.stats.steady.disturbed import Disturbed
from twinlens.stats.steady.levels import (
    Level,
)
from twinlens.stats.steady.slope import Trace

Numbers = Mapping[str, Any]


def because(code: str, numbers: Numbers, severity: Severity = "disqualifies") -> Finding:
    """Why a run has its label; what keeps it from being ranked, unless said otherwise."""
    return Finding(code, severity, "", numbers)


def left_its_level(disturbed: Disturbed) -> Finding:
    worst = disturbed.largest
    numbers = {
        "count": len(disturbed.stretches),
        "effect": disturbed.effect,
        "factor": worst.factor,
        "first": worst.begin_row,
        "last": worst.end_row - 1,
    }
    return because("left-its-level", numbers)


def shortage_of(time_s: NDArray[np.float64], rows: int, seconds: float) -> dict[str, Any]:
    """The shortage of a window: what it has, needs, and in which unit; empty where it lacks nothing."""
    if time_s.size < rows:
        return {"have": time_s.size, "need": rows, "unit": "rows"}
    with np.errstate(over="ignore"):
        lasted = float(time_s.sum())
    return {"have": lasted, "need": seconds, "unit": "s"} if lasted < seconds else {}


def slowed_down(trace: Trace, faster: Level, last: Level) -> Finding:
    numbers = {
        "begin": trace.skipped + trace.row(last.begin),
        "longer": float(np.expm1(min(last.mean - faster.mean, 700.0))),
        "first": trace.skipped + trace.row(faster.begin),
        "last": trace.skipped + trace.row(faster.end) - 1,
    }
    return because("slowdown", numbers)
