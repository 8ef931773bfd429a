"""Charts of a tuning: trials over time, the race of each candidate, the front of objective and constraint."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from twinlens.reporting.chart.figure import INK, SOFT, WIDTH, Figure, data, figure
from twinlens.reporting.palette import PART_COLOURS
from twinlens.stats.metrics.definition import definition_of
from twinlens.tuning.ledger import Trial
from twinlens.tuning.race import Values, shared
from twinlens.tuning.search import gains
from twinlens.tuning.tuning import Tuning

_WON, _LEFT = PART_COLOURS[2], SOFT


def tuning_charts(found: Tuning) -> list[Figure]:
    """Those that there is something to show of."""
    values = gains(found.bound, found.standing)
    made = (_trials(found, values), _race(found, values), _sides(found), *_fronts(found, values))
    return [chart for chart in made if chart is not None]


def _percent(found: Tuning, gap: float) -> float:
    return 100 * math.expm1(found.bound.objective.sign * gap)


def _trials(found: Tuning, values: Values) -> Figure | None:
    """Each candidate against the default at the hour it began, and the best so far."""
    rows, spent_s = [], 0.0
    for trial in found.standing.trials:
        gaps = shared(values, trial.number, 0)
        if trial.number and gaps.size:
            rows.append({"min": spent_s / 60, "change": _percent(found, float(gaps.mean())),
                         "is": "the winner" if trial.number == found.winner.number else "a candidate"})  # fmt: skip
        spent_s += trial.spent_s
    if len(rows) < 2:
        return None
    base = alt.Chart(data(rows))
    x = alt.X("min:Q", title="minutes of work")
    y = alt.Y("change:Q", title=f"{found.bound.objective.label} against the default (%)", scale=alt.Scale(zero=False))
    hue = alt.Color("is:N", scale=alt.Scale(domain=["the winner", "a candidate"], range=[_WON, _LEFT]),
                    legend=alt.Legend(title=None, orient="top"))  # fmt: skip
    zero = alt.Chart(data([{"change": 0.0}])).mark_rule(color=INK).encode(y=alt.Y("change:Q"))
    chart = alt.layer(zero, base.mark_point(filled=True, size=80).encode(x=x, y=y, color=hue))
    title = f"{len(rows)} candidates against the default, in the order in which they were tried."
    caption = "Means over the rounds that a candidate shared with the default; those that left early had few."
    return figure("tuning-trials", chart.properties(width=WIDTH, height=240), title, caption)


def _race(found: Tuning, values: Values) -> Figure | None:
    """The running mean of each candidate against the default, from its first round to its last."""
    rows: list[dict[str, Any]] = []
    for trial in found.standing.trials[1:]:
        gaps = shared(values, trial.number, 0)
        for place in range(gaps.size):
            rows.append({"round": place + 1, "change": _percent(found, float(gaps[: place + 1].mean())),
                         "trial": str(trial.number), "won": trial.number == found.winner.number})  # fmt: skip
    if len({row["trial"] for row in rows}) < 2:
        return None
    x = alt.X("round:Q", title="rounds", axis=alt.Axis(tickMinStep=1))
    y = alt.Y("change:Q", title="mean so far against the default (%)", scale=alt.Scale(zero=False))
    hue = alt.condition("datum.won", alt.value(_WON), alt.value(_LEFT))
    width = alt.condition("datum.won", alt.value(3), alt.value(1))
    lines = alt.Chart(data(rows)).mark_line(point=alt.OverlayMarkDef(size=20)).encode(
        x=x, y=y, detail="trial:N", color=hue, strokeWidth=width
    )  # fmt: skip
    zero = alt.Chart(data([{"change": 0.0}])).mark_rule(color=INK).encode(y=alt.Y("change:Q"))
    title = "The race: each candidate's mean against the default, round after round."
    caption = f"{'Green: the winner. ' if found.winner.settings else ''}A line ends where its candidate left."
    return figure("tuning-race", alt.layer(zero, lines).properties(width=WIDTH, height=240), title, caption)


def _sides(found: Tuning) -> Figure | None:
    """Default and tuned as measured again, with their intervals."""
    proof = found.proof
    if proof is None or proof.default.value is None or proof.tuned.value is None:
        return None
    rows = [
        {"side": name, "value": each.value, "low": each.low or each.value, "high": each.high or each.value}
        for name, each in (("default", proof.default), ("tuned", proof.tuned))
    ]
    metric = definition_of(found.bound.objective.metric)
    base = alt.Chart(data(rows)).encode(y=alt.Y("side:N", title=None, sort=["default", "tuned"]))
    unit = "" if metric.unit in ("", metric.label) else f" ({metric.unit})"
    x = alt.X("value:Q", title=f"{metric.label}{unit}", scale=alt.Scale(zero=False))
    chart = alt.layer(
        base.mark_rule(strokeWidth=4, color=_LEFT).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")),
        base.mark_point(filled=True, size=110, opacity=1, color=_WON).encode(x=x),
    ).properties(width=WIDTH, height=alt.Step(40))
    title = "Default and tuned, measured again with new traffic in fresh processes."
    caption = f"Means of {proof.tuned.n} repeats each, with their intervals; their ratio is of pairs, and narrower."
    return figure("tuning-proof", chart, title, caption)


def _fronts(found: Tuning, values: Values) -> list[Figure]:
    """The objective against each constraint, a point a candidate."""
    made = (_front(found, values, each.metric, each.limit) for each in found.bound.tune.constraints)
    return [chart for chart in made if chart is not None]


def _front(found: Tuning, values: Values, name: str, limit: float) -> Figure | None:
    rows = [row for trial in found.standing.trials if (row := _point(found, values, trial, name)) is not None]
    if len(rows) < 2:
        return None
    metric = definition_of(name)
    x = alt.X("value:Q", title=f"{metric.label} ({metric.unit})", scale=alt.Scale(zero=False))
    y = alt.Y("change:Q", title=f"{found.bound.objective.label} against the default (%)", scale=alt.Scale(zero=False))
    hue = alt.Color("keeps:N", scale=alt.Scale(domain=["kept", "broken"], range=[_WON, "#D55E00"]),
                    legend=alt.Legend(title=None, orient="top"))  # fmt: skip
    rule = alt.Chart(data([{"value": limit}])).mark_rule(color="#D55E00", strokeDash=[5, 3]).encode(x=alt.X("value:Q"))
    points = alt.Chart(data(rows)).mark_point(filled=True, size=80).encode(x=x, y=y, color=hue)
    title = f"What {found.bound.objective.label} costs in {metric.label}."
    chart = alt.layer(rule, points).properties(width=WIDTH, height=240)
    return figure(f"tuning-front-{name.replace('_', '-')}", chart, title, "Dashed: the limit. A point a candidate.")


def _point(found: Tuning, values: Values, trial: Trial, name: str) -> dict[str, Any] | None:
    margin = next((each for each in trial.margins if each.metric == name and each.value is not None), None)
    gaps = shared(values, trial.number, 0)
    if margin is None or not gaps.size:
        return None
    keeps = "kept" if margin.keeps else "broken"
    return {"value": margin.value, "change": _percent(found, float(gaps.mean())), "keeps": keeps}
