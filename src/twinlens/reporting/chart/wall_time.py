"""The chart of where the wall time of training went: useful steps and each loss, one bar an operating point."""

from __future__ import annotations

from twinlens.reporting.chart.figure import Figure, figure
from twinlens.reporting.chart.memory import stack
from twinlens.reporting.view import Entry
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.wall_time import LOSSES

_USEFUL = "useful steps"


def wall_time_chart(entries: tuple[Entry, ...], anchor: str) -> Figure | None:
    """None where no point saved or recovered: of other runs the account says little but how long they were."""
    shown = [entry for entry in entries if any(run.sections.checkpoints for run, _ in entry.material)]
    parts = {entry.name: found for entry in shown if (found := _parts(entry))}
    if not parts:
        return None
    labels = [_USEFUL, *(_label(loss) for loss in LOSSES)]
    labels = [label for label in labels if any(found.get(label) for found in parts.values())]
    chart = stack(parts, labels, 1.0, "share of wall time", "%")
    name, found = min(parts.items(), key=lambda pair: pair[1][_USEFUL])
    losses = {label: share for label, share in found.items() if label != _USEFUL}
    largest = max(losses, key=lambda label: losses[label])
    kept = f"{found[_USEFUL]:.0%} of the wall time of {name}"
    title = f"{kept} went into steps that were kept; {largest} cost most."
    caption = (
        "Every part of the wall time from the start of the trainer to the last row, without what Twinlens examined "
        "before the rows; the parts add up to 100 %. Mean of runs."
    )
    return figure(anchor, chart, title, caption)


def _parts(entry: Entry) -> dict[str, float]:
    metrics = entry.group.metrics
    useful = metrics.get("training_goodput")
    if useful is None or useful.value is None:
        return {}
    losses = {_label(loss): metrics[loss].value or 0.0 for loss in LOSSES if loss in metrics}
    return {_USEFUL: useful.value} | losses


def _label(loss: str) -> str:
    return METRICS[loss].label.removeprefix("lost to ")
