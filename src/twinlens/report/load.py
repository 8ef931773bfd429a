"""How the requests of a group came: in lockstep, at a rate, at a concurrency, or otherwise. No two share an axis."""

from __future__ import annotations

from typing import Literal

from twinlens.report.cell import clean
from twinlens.report.finding_text import standing
from twinlens.stats.group import Group, Summary

Load = Literal["lockstep", "rate", "concurrency", "other"]
SERVED: tuple[Load, ...] = ("rate", "concurrency", "other")
TITLES: dict[Load, str] = {
    "lockstep": "in lockstep batches",
    "rate": "served at a rate (open loop)",
    "concurrency": "served by concurrency (closed loop)",
    "other": "served under load that changes or comes at once",
}


def load_of(one: Group | Summary) -> Load:
    """Training and engine-level inference are "lockstep"; "other" is a ramp, a trace, all at once, a single stream."""
    if one.lens == "training":
        return "lockstep"
    if one.point.get("rate_per_s") is not None:
        return "rate"
    if one.point.get("concurrency") is not None:
        return "concurrency"
    return "other" if "offered_requests_per_s" in one.metrics else "lockstep"


def place_of(one: Group) -> float:
    """Where a group stands on the axis of its load: its rate, its concurrency, or the rate at which requests came."""
    given = one.point.get("rate_per_s") or one.point.get("concurrency")
    offered = one.metrics.get("offered_requests_per_s")
    if isinstance(given, int | float):
        return float(given)
    return offered.value or 0.0 if offered is not None else 0.0


def fault_of(one: Group) -> str:
    """Why its numbers are drawn hollow, in a word or two; "" for a group that is ranked."""
    if one.ranked:
        return ""
    states = [run.state for run in one.runs if run.state != "finished"]
    return clean(states[0] if states else standing(one.label), 40)
