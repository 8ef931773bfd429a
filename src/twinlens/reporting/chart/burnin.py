"""Charts of a burn-in over hours: rate, clock, temperature and errors, with the windows that a criterion marks."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import altair as alt
import numpy as np

from twinlens.acceptance.counts import by_device
from twinlens.acceptance.judgement import Judgement
from twinlens.acceptance.window import DeviceWindow, Window
from twinlens.reporting.chart.figure import INK, PART_COLOURS, WIDTH, Figure, data, figure
from twinlens.reporting.chart.series import thin
from twinlens.reporting.display import clean
from twinlens.units import HOUR_S

_ERRORS = ("ecc_corrected", "ecc_uncorrected", "xid", "pcie_replays", "link_errors")
_MOST_POINTS, _MOST_MARKS, _MOST_LINES = 400, 300, 7
Points = list[tuple[float, float, str, bool]]
"""(hour, value, line, whether a criterion marks its window)."""


def burnin_charts(windows: Sequence[Window], judgement: Judgement) -> list[Figure]:
    """A chart for each of the four that has values."""
    marks = {*judgement.marks}
    hot = _of_devices(windows, marks, lambda each: each.temperature_c)
    clock = _of_devices(windows, marks, lambda each: None if each.clock_hz is None else each.clock_hz / 1e6)
    drawn = (
        ("rate", _rates(windows, marks), "% of its median", "Rate of each workload over hours"),
        ("clock", clock, "MHz", "Clock of each device over hours"),
        ("temperature", hot, "°C", "Highest temperature of each device over hours"),
        ("errors", _errors(windows, marks), "errors since the start", "Errors counted over hours"),
    )
    return [_drawn(f"burnin-{name}", points, unit, title) for name, points, unit, title in drawn if points]


def _rates(windows: Sequence[Window], marks: set[int]) -> Points:
    points: Points = []
    for workload in sorted({each.workload for each in windows}):
        kept = [each for each in windows if each.workload == workload and each.rate_per_s]
        if kept:
            middle = statistics.median(float(each.rate_per_s or 0) for each in kept)
            points += [(_hour(w), 100 * float(w.rate_per_s or 0) / middle, workload, w.number in marks) for w in kept]
    return points


def _of_devices(windows: Sequence[Window], marks: set[int], of: Callable[[DeviceWindow], float | None]) -> Points:
    return [
        (_hour(window), value, device, window.number in marks)
        for device, readings in list(by_device(windows).items())[:_MOST_LINES]
        for window, each in readings
        if (value := of(each)) is not None
    ]


def _errors(windows: Sequence[Window], marks: set[int]) -> Points:
    """Errors of all kinds and devices since the first reading, for each kind that was read."""
    points: Points = []
    for name in _ERRORS:
        first: dict[str, int] = {}
        for window in windows:
            read = {each.device: each.counters[name] for each in window.devices if name in each.counters}
            if read:
                first = {**read, **first}
                total = sum(value - first[device] for device, value in read.items())
                points.append((_hour(window), total, name.replace("_", " "), window.number in marks))
    return points


def _hour(window: Window) -> float:
    return (window.begin_s + window.seconds / 2) / HOUR_S


def _drawn(anchor: str, points: Points, unit: str, title: str) -> Figure:
    lines = sorted({line for _, _, line, _ in points})[:_MOST_LINES]
    rows = [row for line in lines for row in _thinned([each for each in points if each[2] == line])]
    marked = [row for row in points if row[3] and row[2] in lines]
    marked = marked[:: -(-len(marked) // _MOST_MARKS)] if marked else []
    hue = alt.Color(
        "line:N", title=None, scale=alt.Scale(domain=[clean(line, 40) for line in lines], range=list(PART_COLOURS))
    )
    x = alt.X("hour:Q", title="hours of test")
    y = alt.Y("value:Q", title=unit, scale=alt.Scale(zero=anchor == "burnin-errors"))
    chart = (
        alt.Chart(data(list(_plain(rows)))).mark_line(strokeWidth=1.2, interpolate="linear").encode(x=x, y=y, color=hue)
    )
    layers: list[Any] = [chart]
    if marked:
        rings = alt.Chart(data(list(_plain(marked)))).mark_point(size=36, color=INK, strokeWidth=1.2, opacity=0.9)
        layers.append(rings.encode(x=x, y=y))
    of = f"{len(points):,} readings of windows, thinned to their extremes."
    caption = f"{of} Rings: windows that a criterion marks." if marked else of
    return figure(anchor, alt.layer(*layers).properties(width=WIDTH, height=220), f"{title}.", caption)


def _thinned(points: Points) -> Points:
    x, y = (
        np.array(values, dtype=np.float64) for values in zip(*((at, value) for at, value, _, _ in points), strict=True)
    )
    hours, values = thin(x, y, _MOST_POINTS)
    return [(float(at), float(value), points[0][2], False) for at, value in zip(hours, values, strict=True)]


def _plain(points: Points) -> Iterator[dict[str, Any]]:
    for hour, value, line, _ in points:
        yield {"hour": hour, "value": value, "line": clean(line, 40)}
