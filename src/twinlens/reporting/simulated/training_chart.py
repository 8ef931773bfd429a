"""Charts of a simulated training: work that is kept against the time between saves, and who waits in a pipeline."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from twinlens.reporting.chart.figure import SOFT, WIDTH, Figure, data, figure, log_marks
from twinlens.reporting.palette import PART_COLOURS, REST_COLOUR
from twinlens.simulation.training.forecast import Forecast
from twinlens.simulation.training.pipeline import NOTHING, Timeline
from twinlens.theory.waiting.checkpoint import goodput
from twinlens.units import SECONDS, scale, show

_PHASES = ("forward", "backward", "waits for the stage before", "waits for the stage behind", "done")
_MOST_PASSES = 1200


def save_chart(one: Forecast) -> Figure | None:
    """The share of time that is kept against the time between saves; None where nothing was tried."""
    saves, course = one.saves, one.course
    if saves is None or not saves.kept or course.failure is None:
        return None
    at = list(saves.kept)
    divisor, unit = scale(SECONDS, at[len(at) // 2])
    save_s, failure_s, restart_s = course.save.value, course.failure.value, course.restart.value
    rows = [
        {"at": each / divisor, "kept": 100 * (share.value or 0.0), "low": 100 * (share.low or share.value or 0.0),
         "high": 100 * (share.high or share.value or 0.0),
         "daly": 100 * float(goodput(each, save_s, restart_s, failure_s))}
        for each, share in saves.kept.items()
    ]  # fmt: skip
    x = alt.X("at:Q", title=f"steps between two saves ({unit})",
              scale=alt.Scale(type="log", domain=[rows[0]["at"], rows[-1]["at"]], nice=False),
              axis=alt.Axis(values=log_marks(rows[0]["at"], rows[-1]["at"]), format="~g"))  # fmt: skip
    y_scale = alt.Scale(zero=False, domain=[min(row["low"] for row in rows), max(row["high"] for row in rows)])
    base = alt.Chart(data(rows)).encode(x=x)
    layers: list[Any] = [
        base.mark_area(opacity=0.25, color=PART_COLOURS[2]).encode(y=alt.Y("low:Q", scale=y_scale), y2="high:Q"),
        base.mark_line(strokeWidth=2, point=True, color=PART_COLOURS[2]).encode(
            y=alt.Y("kept:Q", title="time that is kept (%)", scale=y_scale)
        ),
        base.mark_line(strokeWidth=1.5, strokeDash=[5, 3], color=SOFT).encode(y=alt.Y("daly:Q", scale=y_scale)),
    ]
    best = saves.best.value
    if best is not None:
        rule = alt.Chart(data([{"at": best / divisor}]))
        layers.append(rule.mark_rule(color=PART_COLOURS[5], strokeWidth=2).encode(x=x))
    told = "the best is not known" if best is None else f"{show(best, SECONDS)} is best"
    title = f"Between two saves, {told}; saves now come every {show(course.save_every * course.step_s, SECONDS)}."
    caption = (
        "Of steps, saves and failures alone. Line: the median over simulations; shaded: the band that holds nine of "
        "ten; dashed: Daly's complete model; red: the interval with which training ends soonest."
    )
    return figure("simulated-saves", alt.layer(*layers).properties(width=WIDTH, height=240), title, caption)


def pipeline_chart(one: Forecast, place: int) -> Figure | None:
    """Passes of each stage over one step, and what it waits for; None without a pipeline, or for too many passes."""
    passes = one.known.passes
    if passes is None or len(passes.stage) > _MOST_PASSES:
        return None
    divisor, unit = scale(SECONDS, passes.makespan_s)
    rows = [row | {"from": row["from"] / divisor, "to": row["to"] / divisor} for row in bars_of(passes)]
    hues = alt.Scale(domain=list(_PHASES), range=[*PART_COLOURS[:2], *PART_COLOURS[4:6], REST_COLOUR])
    chart = alt.Chart(data(rows)).mark_bar(height=alt.RelativeBandSize(0.8), stroke="white", strokeWidth=0.5).encode(
        x=alt.X("from:Q", title=f"time ({unit})",
                scale=alt.Scale(domain=[0, passes.makespan_s / divisor], nice=False)),
        x2="to:Q",
        y=alt.Y("stage:O", title="stage"),
        color=alt.Color("phase:N", scale=hues, legend=alt.Legend(title=None, orient="top", columns=2)),
    )  # fmt: skip
    stages = len(passes.held)
    worst = int(np.argmin(passes.busy_s)) + 1
    title = f"The {stages} stages wait {passes.idle_share:.1%} of a step's passes, stage {worst} most."
    caption = (
        "One step: each bar is a microbatch on a stage. A stage waits for activations of the stage before it, or for "
        "gradients of the one behind; in interleaved orders the stage before the first is the last."
    )
    height = min(300, 40 + 36 * stages)
    return figure(f"simulated-pipeline-{place}", chart.properties(width=WIDTH, height=height), title, caption)


def bars_of(passes: Timeline) -> list[dict[str, Any]]:
    """Passes and waits of each stage, in seconds: stages count from 1."""
    rows: list[dict[str, Any]] = []
    for stage in range(len(passes.held)):
        own = np.flatnonzero(passes.stage == stage)
        free_s = 0.0
        for each in own[np.argsort(passes.begin_s[own])]:
            begin_s, end_s = float(passes.begin_s[each]), float(passes.end_s[each])
            if begin_s > free_s and passes.waits_for[each] != NOTHING:
                waits = _PHASES[3] if passes.is_backward[passes.waits_for[each]] else _PHASES[2]
                rows.append({"stage": stage + 1, "phase": waits, "from": free_s, "to": begin_s})
            phase = _PHASES[1] if passes.is_backward[each] else _PHASES[0]
            rows.append({"stage": stage + 1, "phase": phase, "from": begin_s, "to": end_s})
            free_s = end_s
        if free_s < passes.makespan_s:
            rows.append({"stage": stage + 1, "phase": _PHASES[4], "from": free_s, "to": passes.makespan_s})
    return rows
