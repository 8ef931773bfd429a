"""The page of `plan capacity`: latency against load, or the parts of a training step, with bands."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.planning.capacity.serving import ServingCapacity
from twinlens.planning.capacity.training import TrainingCapacity
from twinlens.planning.figure import Figure
from twinlens.record.finding import Finding
from twinlens.reporting.chart.figure import Figure as Chart
from twinlens.reporting.chart.plan_bars import plan_bars
from twinlens.reporting.chart.plan_curve import capacity_curves
from twinlens.reporting.html.plan_page import PlanPage
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.plan_capacity import (
    NAMES,
    answer_words,
    count_words,
    devices_words,
    serving_words,
    target_words,
    training_words,
)
from twinlens.units import SECONDS, scale, show


def capacity_page(found: ServingCapacity | TrainingCapacity, notes: Sequence[Finding] = ()) -> PlanPage:
    """What the page of one answer shows."""
    remarks = tuple(clause_of(each) for each in found.remarks)
    if isinstance(found, TrainingCapacity):
        takes = () if found.devices is None or found.devices.value is None else (f"{count_words(found.devices)}.",)
        bars = _parts(found.step, "part-", "A step")
        charts = () if bars is None else (bars,)
        subject = training_words(found.plan)
        return PlanPage("capacity", subject, (answer_words(found), *takes), found.figures, charts, (), remarks,
                        tuple(notes))  # fmt: skip
    answer = (answer_words(found), f"{target_words(found)}.", f"{devices_words(found)}.")
    tpot = found.figure("tpot")
    bars = None if tpot is None or tpot.value is None else _parts(tpot, "step-", "The time between two tokens")
    charts = (*capacity_curves(found), *(() if bars is None else (bars,)))
    figures = (*found.figures, *found.tails, found.most, found.devices)
    return PlanPage("capacity", serving_words(found.plan), answer, figures, charts, (), remarks, tuple(notes))


def _parts(whole: Figure, prefix: str, what: str) -> Chart | None:
    """Bars of what a time is the sum of, and of the sum with its band."""
    parts = [each for each in whole.inputs if isinstance(each, Figure) and each.name.startswith(prefix)]
    if not parts or whole.value is None:
        return None
    largest = max(parts, key=lambda each: float(each.value or 0))
    divisor, unit = scale(SECONDS, float(whole.high or whole.value))
    bars = [(NAMES.get(each.name, each.name), each) for each in (*parts, whole)]
    title = f"{what} takes {show(float(whole.value), SECONDS)}, most of it {NAMES.get(largest.name, largest.name)}."
    return plan_bars(f"parts-{whole.name}", bars, f"time ({unit})", title,
                     "Predicted seconds by cause; the line is the band of the sum.", divisor=divisor)  # fmt: skip
