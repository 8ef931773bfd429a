"""Charts of a burn-in over hours: rate, clock, temperature and errors, with the windows that a criterion marks."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import altair as alt
import numpy as np

from twinlens.acceptance.judgement import Judgement
from twinlens.acceptance.window import DeviceWindow, Window
from twinlens.reporting.chart.figure import WARM, WIDTH, Figure, data, figure
from twinlens.reporting.chart.series import thin
from twinlens.reporting.display import clean
from twinlens.reporting.palette import PART_COLOURS
from twinlens.units import HOUR_S

_ERRORS = ("ecc_corrected", "ecc_uncorrected", "xid", "pcie_replays", "link_errors")
_MOST_POINTS, _MOST_LINES = 400, 7
Points = list[tuple[float, float, str]]
"""(hour, value, line)."""


def burnin_charts(windows: Sequence[Window], judgement: Judgement) -> list[Figure]:
    """A chart for each of the four that has values."""
    stretches = list(_stretches(windows, judgement))
    hot = _of_devices(windows, lambda each: each.temperature_c)
    clock = _of_devices(windows, lambda each: None if each.clock_hz is None else round(each.clock_hz / 1e6, 1))
    drawn = (
        ("rate", _rates(windows), "% of its median", "Rate of each workload over hours"),
        ("clock", clock, "MHz", "Clock of each device over hours"),
        ("temperature", hot, "°C", "Highest temperature of each device over hours"),
        ("errors", _errors(windows), "errors since the start", "Errors counted over hours"),
    )
    return [_drawn(f"burnin-{name}", points, unit, title, stretches) for name, points, unit, title in drawn if points]


def _stretches(windows: Sequence[Window], judgement: Judgement) -> Iterator[dict[str, float]]:
    """Stretches of windows that a criterion marks, in hours, each wide enough to be seen."""
    last = max((each.begin_s + each.seconds for each in windows), default=0.0) / HOUR_S
    begin, end = None, 0.0
    for window in windows:
        first, after = window.begin_s / HOUR_S, (window.begin_s + window.seconds) / HOUR_S
        if window.number in judgement.marks:
            begin, end = (first if begin is None else begin), after
        elif begin is not None:
            yield {"from": begin, "to": max(end, begin + last / 200)}
            begin = None
    if begin is not None:
        yield {"from": begin, "to": max(end, begin + last / 200)}


def _rates(windows: Sequence[Window]) -> Points:
    points: Points = []
    for workload in sorted({each.workload for each in windows}):
        kept = [each for each in windows if each.workload == workload and each.rate_per_s]
        if kept:
            middle = statistics.median(float(each.rate_per_s or 0) for each in kept)
            points += [(_hour(w), 100 * float(w.rate_per_s or 0) / middle, workload) for w in kept]
    return points


def _of_devices(windows: Sequence[Window], of: Callable[[DeviceWindow], float | None]) -> Points:
    """A line for each device; of more than seven the highest, the median and the lowest."""
    points: Points = []
    devices = {each.device for window in windows for each in window.devices}
    for window in windows:
        read = {each.device: value for each in window.devices if (value := of(each)) is not None}
        if len(devices) > _MOST_LINES and read:
            ends = {"highest": max(read.values()), "lowest": min(read.values())}
            read = {**ends, f"median of {len(devices)}": statistics.median(read.values())}
        points += [(_hour(window), value, line) for line, value in read.items()]
    return points


def _errors(windows: Sequence[Window]) -> Points:
    """Errors of all kinds and devices since the first reading, for each kind that was read."""
    points: Points = []
    for name in _ERRORS:
        first: dict[str, int] = {}
        for window in windows:
            read = {each.device: each.counters[name] for each in window.devices if name in each.counters}
            if read:
                first = {**read, **first}
                total = sum(value - first[device] for device, value in read.items())
                points.append((_hour(window), total, name.replace("_", " ")))
    return points


def _hour(window: Window) -> float:
    return (window.begin_s + window.seconds / 2) / HOUR_S


def _drawn(anchor: str, points: Points, unit: str, title: str, stretches: Sequence[dict[str, float]]) -> Figure:
    lines = sorted({line for _, _, line in points})[:_MOST_LINES]
    rows = [row for line in lines for row in _thinned([each for each in points if each[2] == line])]
    scale = alt.Scale(domain=[clean(line, 40) for line in lines], range=list(PART_COLOURS))
    x = alt.X("hour:Q", title="hours of test")
    y = alt.Y("value:Q", title=unit, scale=alt.Scale(zero=anchor == "burnin-errors"))
    hue = alt.Color("line:N", title=None, scale=scale)
    layers: list[Any] = [alt.Chart(data(list(_plain(rows)))).mark_line(strokeWidth=1.2).encode(x=x, y=y, color=hue)]
    if stretches:
        bands = alt.Chart(data(list(stretches))).mark_rect(color=WARM)
        layers.insert(0, bands.encode(x=alt.X("from:Q", title="hours of test"), x2=alt.X2("to:Q")))
    of = f"{len(points):,} readings of windows, thinned to their extremes."
    caption = f"{of} Shaded: windows that a criterion marks." if stretches else of
    return figure(anchor, alt.layer(*layers).properties(width=WIDTH, height=220), f"{title}.", caption)


def _thinned(points: Points) -> Points:
    x, y = (
        np.array(values, dtype=np.float64) for values in zip(*((at, value) for at, value, _ in points), strict=True)
    )
    hours, values = thin(x, y, _MOST_POINTS)
    return [(float(at), float(value), points[0][2]) for at, value in zip(hours, values, strict=True)]


def _plain(points: Points) -> Iterator[dict[str, Any]]:
    for hour, value, line in points:
        yield {"hour": hour, "value": value, "line": clean(line, 40)}
