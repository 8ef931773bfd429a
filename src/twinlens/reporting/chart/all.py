"""All charts of one lens, in the order they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from altair.utils import schemapi

from twinlens.reporting.chart.figure import Figure
from twinlens.reporting.chart.loss import loss_chart
from twinlens.reporting.chart.memory import memory_chart, phase_chart, rule_chart
from twinlens.reporting.chart.placed import placed_points
from twinlens.reporting.chart.rate import rate_chart, timeline
from twinlens.reporting.chart.roofline import roofline_chart
from twinlens.reporting.chart.time import time_charts
from twinlens.reporting.chart.wall_time import wall_time_chart
from twinlens.reporting.paired import Paired
from twinlens.reporting.view import Entry, LensView


@dataclass(frozen=True, slots=True)
class Charts:
    """`main` stand beside the table, `timelines` below; `missing` says what could not be drawn and why."""

    main: tuple[Figure, ...]
    timelines: tuple[Figure, ...]
    missing: tuple[str, ...]


def charts(lens: LensView, turns: Sequence[Paired] = (), *, checked: bool = False) -> tuple[Charts, ...]:
    """One set of charts for each part of the lens (a model on a machine), in the view's order.

    `turns`: ratios of points that took turns.

    Altair's own checks against its schema take longer than the drawing. They are a matter for tests.
    """
    with schemapi.debug_mode(checked):
        return tuple(_of_part(lens, entries, index, turns) for index, entries in enumerate(lens.parts))


def _of_part(lens: LensView, entries: tuple[Entry, ...], index: int, turns: Sequence[Paired]) -> Charts:
    mark = f"{lens.lens}{index}"
    if lens.lens == "collective":
        return _of_exchanges(lens, entries, mark)
    drawn: list[Figure | None] = [
        rate_chart(lens, entries, f"{mark}-rate", turns),
        *time_charts(lens, entries, mark),
    ]
    if lens.lens == "training":
        drawn += [loss_chart(entries, f"{mark}-loss"), phase_chart(entries, f"{mark}-phase")]
        drawn.append(wall_time_chart(entries, f"{mark}-wall"))
    drawn.append(memory_chart(lens, entries, f"{mark}-memory"))
    if lens.lens == "training":
        drawn.append(rule_chart(entries, f"{mark}-rule"))
    roof = roofline_chart(lens, entries, f"{mark}-roof")
    missing = [] if roof is not None else _why_no_roofline(lens, entries)
    times = [timeline(entry, f"{mark}-time{place_}") for place_, entry in enumerate(entries)]
    return Charts(
        tuple(chart for chart in (*drawn, roof) if chart is not None),
        tuple(chart for chart in times if chart is not None),
        tuple(missing),
    )


def _of_exchanges(lens: LensView, entries: tuple[Entry, ...], mark: str) -> Charts:
    """Bandwidths and how each run went; a roofline and memory are of a model."""
    times = [timeline(entry, f"{mark}-time{place}") for place, entry in enumerate(entries)]
    rate = rate_chart(lens, entries, f"{mark}-rate")
    return Charts((rate,) if rate is not None else (), tuple(chart for chart in times if chart is not None), ())


def _why_no_roofline(lens: LensView, entries: tuple[Entry, ...]) -> list[str]:
    placed, missing = placed_points(lens, entries)
    if placed:
        return ["No roofline: the ceilings of this machine were not measured (read bandwidth and matrix rate)."]
    return [f"No roofline: {'; '.join(missing[:2])}."]
