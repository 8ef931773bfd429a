"""One sentence for the metrics that were not measured, grouped by their reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.text.footnote import hanging
from twinlens.stats.metrics.definition import METRICS

Absent = tuple[str, str]
"""The label of a metric, and why it has no value."""


def absent_of(metrics: Mapping[str, Estimate]) -> list[Absent]:
    """Metrics without a value and their reasons, in the order of the definitions."""
    order = [id for id in METRICS if id in metrics] + [id for id in metrics if id not in METRICS]
    return [
        (METRICS[id].label if id in METRICS else display.clean(id, 30), display.absence(metrics[id]))
        for id in order
        if metrics[id].value is None
    ]


def not_measured(absent: Sequence[Absent]) -> list[RenderableType]:
    """ "not measured: hold p50, hold p99 (no admission policy held requests back); …"; nothing where all was."""
    alike: dict[str, list[str]] = {}
    for label, why in absent:
        alike.setdefault(why, []).append(label)
    listed = "; ".join(f"{', '.join(labels)} ({why})" for why, labels in alike.items())
    return [hanging("", f"not measured: {listed}", "dim")] if listed else []
