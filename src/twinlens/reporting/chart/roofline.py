"""The measured roofline: what this machine sustained, and how near each kind of work came to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import altair as alt

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.chart.figure import INK, WIDTH, Figure, colours, data, figure
from twinlens.reporting.view import Entry, LensView
from twinlens.theory.roofline import attainable_flop_per_s, ridge_point
from twinlens.units import show

# kind → FLOP and bytes in Facts.work, and the metric that holds the time of that unit of work.
_KINDS = {
    "training": (("training step", "step_flop", "step_bytes", "step_s_p50"),),
    "inference": (
        ("prefill", "prefill_flop", "prefill_bytes", "ttft_s_p50"),
        ("decode", "decode_flop", "decode_bytes", "tpot_s_p50"),
    ),
}


_BEYOND = 1.05  # a point may pass its roof by the noise of both


@dataclass(frozen=True, slots=True)
class Placed:
    """One kind of work of one entry on the roofline."""

    entry: str
    kind: str
    flop_per_byte: float
    flop_per_s: float
    reached: float | None


def roofline_chart(lens: LensView, entries: tuple[Entry, ...], anchor: str) -> Figure | None:
    """Roofs from measured ceilings and points at (intensity, achieved FLOP/s), both axes logarithmic.

    A point needs FLOP, bytes and a time; one that lacks any is left out and the caption says which.
    """
    roofs = {entry.name: roof for entry in entries if (roof := _roof(entry)) is not None}
    placed, missing = placed_points(lens, entries)
    if not roofs or not placed:
        return None
    across = [point.flop_per_byte for point in placed] + [ridge_point(*roof) for roof in roofs.values()]
    low, high = min(across) / 3, max(across) * 3
    lines: list[dict[str, Any]] = []
    for name, (peak, bandwidth) in roofs.items():
        for intensity in sorted({low, min(max(peak / bandwidth, low), high), high}):
            lines.append({"name": name, "x": intensity, "y": attainable_flop_per_s(intensity, peak, bandwidth) / 1e9})
    names = {entry.name: entry.precision for entry in entries}
    x = alt.X(
        "x:Q",
        title="intensity (FLOP per byte, log scale)",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
    )
    every = [float(row["y"]) for row in lines] + [point.flop_per_s / 1e9 for point in placed]
    y_scale = alt.Scale(type="log", domain=[_floor(min(every)), _ceiling(max(every))], nice=False)
    y = alt.Y("y:Q", title="GFLOP/s (log scale)", scale=y_scale)
    hue = alt.Color("name:N", scale=colours(names), title=None, sort=list(names))
    kinds = [kind for kind, *_ in _KINDS[lens.lens]]
    dots = [
        {"name": point.entry, "kind": point.kind, "x": point.flop_per_byte, "y": point.flop_per_s / 1e9}
        for point in placed
    ]
    shape = alt.Shape("kind:N", title=None, scale=alt.Scale(domain=kinds, range=["circle", "square"][: len(kinds)]))
    grid = alt.Axis(tickCount=5, format="~g")
    roof_lines = alt.Chart(data(lines)).mark_line(strokeWidth=2).encode(
        x=x.axis(grid), y=y.axis(grid), color=hue, detail="name:N"
    )  # fmt: skip
    marks = alt.Chart(data(dots)).mark_point(filled=True, size=110, opacity=1, stroke=INK, strokeWidth=1)
    chart = (roof_lines + marks.encode(x=x, y=y, color=hue, shape=shape)).properties(width=WIDTH, height=270)
    return figure(anchor, chart, _title(placed), _caption(missing, entries))


def placed_points(lens: LensView, entries: tuple[Entry, ...]) -> tuple[list[Placed], list[str]]:
    """The points that can be placed, and a sentence for each that cannot."""
    placed, missing = [], []
    for entry in entries:
        facts = next((run.facts for run, _ in entry.material if run.facts is not None), None)
        for kind, flop_id, bytes_id, time_id in _KINDS[lens.lens]:
            work = facts.work if facts is not None else {}
            parts = {
                flop_id: work.get(flop_id),
                bytes_id: work.get(bytes_id),
                time_id: entry.group.metrics.get(time_id),
            }
            absent = [name for name, estimate in parts.items() if _number(estimate) is None]
            if absent:
                missing.append(f"{kind} of {entry.name} is left out: {', '.join(absent)} not known")
                continue
            flop, moved, took_s = (_number(estimate) or math.nan for estimate in parts.values())
            roof = _roof(entry)
            reached = flop / took_s / attainable_flop_per_s(flop / moved, *roof) if roof else None
            placed.append(Placed(entry.name, kind, flop / moved, flop / took_s, reached))
    return placed, missing


def _roof(entry: Entry) -> tuple[float, float] | None:
    """Matrix rate and read bandwidth, as measured beside the first run that has both."""
    for run, _ in entry.material:
        ceilings = run.facts.ceilings if run.facts is not None else {}
        peak, bandwidth = (_number(ceilings.get(key)) for key in ("matrix_flop_per_s", "read_bytes_per_s"))
        if peak and bandwidth:
            return peak, bandwidth
    return None


def _number(estimate: Estimate | None) -> float | None:
    return estimate.value if estimate is not None and estimate.value and estimate.value > 0 else None


def _title(placed: list[Placed]) -> str:
    known = [point for point in placed if point.reached is not None]
    if not known:
        return "Achieved FLOP/s against the measured roofs."
    nearest = max(known, key=lambda point: point.reached or 0.0)
    reached = nearest.reached or 0.0
    nearest_point = f"{nearest.kind.capitalize()} of {nearest.entry}"
    if reached > _BEYOND:
        return f"{nearest_point} lies above its roof ({reached:.0%}): a ceiling or a count of FLOP cannot be right."
    return f"{nearest_point} comes nearest to its roof: {reached:.0%} of it."


def _caption(missing: list[str], entries: tuple[Entry, ...]) -> str:
    ceilings: dict[str, Any] = {}
    for entry in entries:
        for run, _ in entry.material:
            if run.facts is not None:
                ceilings = ceilings or run.facts.ceilings
    read, matrix = (ceilings.get(key) for key in ("read_bytes_per_s", "matrix_flop_per_s"))
    measured = [
        f"{label} {show(ceiling.value, ceiling.unit)} (n = {ceiling.n or 'not stated'})"
        for label, ceiling in (("read bandwidth", read), ("matrix rate of the first precision", matrix))
        if ceiling is not None and ceiling.value is not None
    ]
    left_out = f" {display.clean('; '.join(missing), 400)}." if missing else ""
    return (
        "Lines: roofs from ceilings measured on this machine in each precision, not from a datasheet; "
        f"{' and '.join(measured)}. Points: FLOP and least bytes of one unit of work (a step; the prefill or "
        f"one decode step of the whole batch) over its median time.{left_out}"
    )


def _floor(value: float) -> float:
    return float(10 ** math.floor(math.log10(value)))


def _ceiling(value: float) -> float:
    return float(10 ** math.ceil(math.log10(value * 1.05)))
