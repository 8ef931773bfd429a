"""The measured roofline: what this machine sustained, and how near each kind of work came to it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from twinlens.diagnosis.phase import phase_work
from twinlens.diagnosis.verdict import MOST_OF_CEILING
from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.chart.figure import INK, SOFT, WIDTH, Figure, colours, data, figure
from twinlens.reporting.view import Entry, LensView
from twinlens.theory.roofline import attainable_flop_per_s, ridge_point
from twinlens.units import show

_SHAPES = {
    "training step": "circle",
    "prefill": "circle",
    "decode": "square",
    "forward": "circle",
    "backward": "square",
    "optimizer": "triangle-up",
}
_HEIGHT = 320
_LONGEST = 30


def roofline_chart(lens: LensView, entries: tuple[Entry, ...], anchor: str) -> Figure | None:
    """Roofs from measured ceilings and labelled points at (intensity, achieved FLOP/s), both axes logarithmic.

    A point needs FLOP, bytes and a time; one that lacks any is left out and the caption says which.
    """
    roofs = {entry.name: measured for entry in entries if (measured := roof(entry)) is not None}
    placed, missing = placed_points(lens, entries)
    if not roofs or not placed:
        return None
    across = [point.flop_per_byte for point in placed] + [ridge_point(*roof[:2]) for roof in roofs.values()]
    low, high = min(across) / 3, max(across) * 3
    lines = [line for name, roof in roofs.items() for line in _lines(name, roof, low, high)]
    every = [float(row["y"]) for row in lines] + [point.flop_per_s / 1e9 for point in placed]
    floor, ceiling = _floor(min(every)), _ceiling(max(every))
    grid = alt.Axis(tickCount=5, format="~g")
    x_scale = alt.Scale(type="log", domain=[low, high], nice=False)
    y_scale = alt.Scale(type="log", domain=[floor, ceiling], nice=False)
    x = alt.X("x:Q", title="intensity (FLOP per byte, log scale)", scale=x_scale, axis=grid)
    y = alt.Y("y:Q", title="GFLOP/s (log scale)", scale=y_scale, axis=grid)
    names = {entry.name: entry.precision for entry in entries}
    hue = alt.Color("name:N", scale=colours(names), title=None, sort=list(names))
    texts = _labels(placed, _short_names(list(names)), (low, high), (floor, ceiling))
    kinds = list(dict.fromkeys(point.kind for point in placed))
    shapes = alt.Scale(domain=kinds, range=[_SHAPES[kind] for kind in kinds])
    key = None if len(texts) == len(placed) else alt.Legend()  # labels say it, where each point has one
    shape = alt.Shape("kind:N", title=None, scale=shapes, sort=kinds, legend=key)
    dash = alt.StrokeDash("of:N", legend=None, scale=alt.Scale(domain=["memory", "kernel"], range=[[1, 0], [5, 3]]))
    roof_lines = alt.Chart(data(lines)).mark_line(strokeWidth=2).encode(
        x=x, y=y, color=hue, strokeDash=dash, detail=alt.Detail("line:N")
    )  # fmt: skip
    dots = [
        {"name": point.entry, "kind": point.kind, "x": point.flop_per_byte, "y": point.flop_per_s / 1e9}
        for point in placed
    ]
    marks = alt.Chart(data(dots)).mark_point(filled=True, size=110, opacity=1, stroke=INK, strokeWidth=1)
    layers = [roof_lines, *_leaders(texts, x, y), marks.encode(x=x, y=y, color=hue, shape=shape), *_words(texts, x, y)]
    chart = alt.layer(*layers).properties(width=WIDTH, height=_HEIGHT)
    return figure(anchor, chart, _title(placed), _caption(missing, entries))


def _lines(name: str, roof: Roof, low: float, high: float) -> list[dict[str, Any]]:
    """The corners of one roof, and of the dashed line below it that kernels set."""
    rows = []
    for of, bandwidth in (("memory", roof[1]), ("kernel", roof[2])):
        if bandwidth is None:
            continue
        for at in sorted({low, min(max(roof[0] / bandwidth, low), high), high}):
            height = attainable_flop_per_s(at, roof[0], bandwidth) / 1e9
            rows.append({"name": name, "line": f"{name} {of}", "of": of, "x": at, "y": height})
    return rows


def _labels(
    placed: Sequence[Placed], short: Mapping[str, str], across: tuple[float, float], up: tuple[float, float]
) -> list[dict[str, Any]]:
    """The text of each point at a place of its own, in the units of the axes; (px, py) is the point that it names."""
    texts = [display.clean(f"{point.kind} {short[point.entry]}".strip(), _LONGEST) for point in placed]
    pixels = [
        (WIDTH * _along(point.flop_per_byte, *across), _HEIGHT * (1 - _along(point.flop_per_s / 1e9, *up)))
        for point in placed
    ]
    rows = []
    for point, text, (at, _), box in zip(
        placed, texts, pixels, label_boxes(pixels, texts, WIDTH, _HEIGHT), strict=True
    ):
        if box is None:
            continue
        edge = box.left if box.left > at else min(box.right, max(box.left, at))
        middle = (box.top + box.bottom) / 2
        rows.append({
            "text": text, "x": _back(box.left / WIDTH, *across), "y": _back(1 - middle / _HEIGHT, *up),
            "edge": _back(edge / WIDTH, *across), "px": point.flop_per_byte, "py": point.flop_per_s / 1e9,
        })  # fmt: skip
    return rows


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """Each name without the parts that all have: "bf16" of "demo-34m · bf16"; "" where there is one only."""
    parts = {name: name.split(" · ") for name in names}
    shared = set.intersection(*(set(each) for each in parts.values()))
    return {name: " · ".join(part for part in each if part not in shared) for name, each in parts.items()}


def _leaders(texts: list[dict[str, Any]], x: Any, y: Any) -> list[Any]:
    """Thin lines from points to their labels."""
    if not texts:
        return []
    rows = [{"x": row["px"], "y": row["py"], "edge": row["edge"], "level": row["y"]} for row in texts]
    rule = alt.Chart(data(rows)).mark_rule(stroke=SOFT, strokeWidth=0.8)
    return [rule.encode(x=x, y=y, x2=alt.X2("edge:Q"), y2=alt.Y2("level:Q"))]


def _words(texts: list[dict[str, Any]], x: Any, y: Any) -> list[Any]:
    """The labels, on a pale edge that keeps them readable across a line."""
    if not texts:
        return []
    at = alt.Chart(data(texts)).encode(x=x, y=y, text=alt.Text("text:N"))
    look = {"align": "left", "baseline": "middle", "fontSize": 12}
    return [at.mark_text(**look, stroke="white", strokeWidth=4, opacity=0.85), at.mark_text(**look, color=INK)]


def _along(value: float, low: float, high: float) -> float:
    """Where a value lies between two bounds of a logarithmic axis, 0 to 1."""
    return math.log(value / low) / math.log(high / low)


def _back(share: float, low: float, high: float) -> float:
    return float(low * (high / low) ** share)


def _title(placed: list[Placed]) -> str:
    known = [point for point in placed if point.reached is not None]
    if not known:
        return "Achieved FLOP/s against the measured roofs."
    nearest = max(known, key=lambda point: point.reached or 0.0)
    reached = nearest.reached or 0.0
    nearest_point = f"{nearest.kind.capitalize()} of {nearest.entry}"
    if reached > MOST_OF_CEILING:
        return f"{nearest_point} lies above its roof ({reached:.0%}): a ceiling or a count of FLOP cannot be right."
    within = ", above it by no more than the noise of ceilings" if reached > 1 else ""
    return f"{nearest_point} comes nearest to its roof: {reached:.0%} of it{within}."


def _caption(missing: list[str], entries: tuple[Entry, ...]) -> str:
    ceilings: dict[str, Any] = {}
    for entry in entries:
        for run, _ in entry.material:
            if run.facts is not None:
                ceilings = ceilings or run.facts.ceilings
    matrix = next((key for key in ("matrix_flop_per_s_at", "matrix_flop_per_s") if number(ceilings.get(key))), "")
    labels = {"read_bytes_per_s": "read bandwidth", matrix: "matrix rate of the first precision"}
    measured = [
        f"{label} {show(ceiling.value, ceiling.unit)} (n = {ceiling.n or 'not stated'})"
        for key, label in labels.items()
        if (ceiling := ceilings.get(key)) is not None and ceiling.value is not None
    ]
    left_out = f" {display.clean('; '.join(missing), 400)}." if missing else ""
    dashed = " Dashed: what its mat-vec kernels read when measured alone." if ceilings.get("matvec_bytes_per_s") else ""
    return (
        "Lines: roofs from ceilings measured on this machine in each precision, not from a datasheet; "
        f"{' and '.join(measured)}.{dashed} Points: FLOP and least bytes by theory of one unit of work (a phase of a "
        f"step; the prefill or one decode step of the whole batch) over its time.{left_out}"
    )


def _floor(value: float) -> float:
    return float(10 ** math.floor(math.log10(value)))


def _ceiling(value: float) -> float:
    return float(10 ** math.ceil(math.log10(value * 1.05)))


# Labels of points that do not cover one another: each takes the first free place around its point.

HEIGHT = 15.0  # of a line of 12 px
_PER_LETTER = 6.6  # of a sans serif at 12 px: wide on purpose, as renderers differ
_POINT = 7.0  # half the width that a point takes
_RINGS = (11.0, 24.0, 40.0, 60.0, 84.0)
_TURNS = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1))


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two share any area."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def is_within(self, width: float, height: float) -> bool:
        """Whether it lies inside a plot of this size."""
        return self.left >= 0 and self.top >= 0 and self.right <= width and self.bottom <= height


def label_boxes(
    points: Sequence[tuple[float, float]], texts: Sequence[str], width: float, height: float
) -> list[Box | None]:
    """A box for the text of each point, in pixels, clear of all points and of the boxes before it.

    None where no place is free: no label is better than two that cannot be read.
    """
    taken = [Box(x - _POINT, y - _POINT, x + _POINT, y + _POINT) for x, y in points]
    boxes: list[Box | None] = []
    for (x, y), text in zip(points, texts, strict=True):
        free = (
            box
            for box in _places(x, y, _PER_LETTER * len(text))
            if box.is_within(width, height) and not any(box.meets(other) for other in taken)
        )
        box = next(free, None)
        boxes.append(box)
        taken += [box] if box else []
    return boxes


def _places(x: float, y: float, wide: float) -> Iterator[Box]:
    """Around the point, the nearest first: right, left, above, below, then the corners."""
    for ring in _RINGS:
        for across, down in _TURNS:
            left = x + across * ring - (wide if across < 0 else wide / 2 if across == 0 else 0)
            middle = y + down * ring
            yield Box(left, middle - HEIGHT / 2, left + wide, middle + HEIGHT / 2)


# Points of the roofline: the work of each operating point, by phase of a step, or as prefill and decode.

# kind → FLOP and bytes in Facts.work, and the metric that holds the time of that unit of work.
_KINDS = {
    "training": (("training step", "step_flop", "step_bytes", "step_s_p50"),),
    "inference": (
        ("prefill", "prefill_flop", "prefill_bytes", "ttft_s_p50"),
        ("decode", "decode_flop", "decode_bytes", "tpot_s_p50"),
    ),
}
_PHASES = {"forward": "forward", "backward": "backward", "optimize": "optimizer"}
Roof = tuple[float, float, float | None]
"""Matrix rate in FLOP/s, read bandwidth in bytes/s, and the rate of mat-vec kernels in bytes/s where measured."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One kind of work of one entry on the roofline."""

    entry: str
    kind: str
    flop_per_byte: float
    flop_per_s: float
    reached: float | None


def placed_points(lens: LensView, entries: tuple[Entry, ...]) -> tuple[list[Placed], list[str]]:
    """The points that can be placed, and a sentence for each that cannot.

    A training step is placed by its phases where it has them: forward, backward and the optimizer.
    """
    placed, missing = [], []
    for entry in entries:
        beneath, phases = roof(entry), _phases(entry)
        placed += [_placed(entry.name, kind, *parts, beneath) for kind, parts in phases.items()]
        if phases:
            continue
        facts = next((run.facts for run, _ in entry.material if run.facts is not None), None)
        for kind, flop_id, bytes_id, time_id in _KINDS[lens.lens]:
            work = facts.work if facts is not None else {}
            parts = {
                flop_id: work.get(flop_id),
                bytes_id: work.get(bytes_id),
                time_id: entry.group.metrics.get(time_id),
            }
            words = zip(("FLOP", "bytes", "time"), parts.values(), strict=True)
            if absent := [word for word, estimate in words if number(estimate) is None]:
                missing.append(f"{kind} of {entry.name} is left out: {', '.join(absent)} not known")
                continue
            flop, moved, took_s = (number(estimate) or math.nan for estimate in parts.values())
            placed.append(_placed(entry.name, kind, flop, moved, took_s, beneath))
    return placed, missing


def _placed(entry: str, kind: str, flop: float, moved: float, took_s: float, beneath: Roof | None) -> Placed:
    reached = flop / took_s / attainable_flop_per_s(flop / moved, *beneath[:2]) if beneath else None
    return Placed(entry, kind, flop / moved, flop / took_s, reached)


def _phases(entry: Entry) -> dict[str, tuple[float, float, float]]:
    """FLOP, bytes and seconds of each phase of a training step; empty unless all are known.

    Seconds are the share of the phase times the median step, both over all repeats.
    """
    run = next((run for run, _ in entry.material if run.facts is not None and "step_bytes" in run.facts.work), None)
    if run is None:
        return {}
    work, step_s = phase_work(run), number(entry.group.metrics.get("step_s_p50"))
    shares = {phase: number(entry.group.metrics.get(f"{phase}_share")) for phase in work}
    if step_s is None:
        return {}
    known = {phase: share * step_s for phase, share in shares.items() if share is not None}
    if len(known) < len(_PHASES):
        return {}
    return {word: (*work[phase], known[phase]) for phase, word in _PHASES.items()}


def roof(entry: Entry) -> Roof | None:
    """As measured beside the first run that has both roofs; products of the model's own shapes go before others."""
    for run, _ in entry.material:
        ceilings = run.facts.ceilings if run.facts is not None else {}
        peak = number(ceilings.get("matrix_flop_per_s_at")) or number(ceilings.get("matrix_flop_per_s"))
        bandwidth, kernel = (number(ceilings.get(key)) for key in ("read_bytes_per_s", "matvec_bytes_per_s"))
        if peak and bandwidth:
            return peak, bandwidth, kernel if kernel and kernel < bandwidth else None
    return None


def number(estimate: Estimate | None) -> float | None:
    """A value that is there and above 0, as a logarithmic axis needs."""
    return estimate.value if estimate is not None and estimate.value and estimate.value > 0 else None
