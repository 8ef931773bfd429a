"""Metrics as flat rows, one for each run and metric: what `tl.frame`, CSV, Parquet and Markdown are made of."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from io import StringIO
from typing import Any

from twinlens.record.estimate import Estimate
from twinlens.reporting.display import clean
from twinlens.spec.point import Point
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Summary

TidyRow = dict[str, Any]
POINT_COLUMNS = (*Point.model_fields, "global_batch", "seq_len", "size_bytes")
"""Fields of an operating point; a column each, None where a run's has no such field."""
_OF_RUN = ("run", "lens", "model", "executor", "machine", "repeat", "attempt", "state", "label", "validity", "rows")
_OF_ESTIMATE = (
    "value",
    "low",
    "high",
    "level",
    "n",
    "unit",
    "method",
    "origin",
    "reason",
    "no_interval",
    "seen",
    "runs",
    "hidden",
)
COLUMNS = (*_OF_RUN, *POINT_COLUMNS, "metric", "metric_label", *_OF_ESTIMATE)


def tidy_rows(summaries: Iterable[Summary]) -> list[TidyRow]:
    """One mapping for each run and metric, all with the same keys in the same order, values in SI units.

    `value`, `low` and `high` are None where they cannot be said, and `reason` says why; `level` is the confidence of
    low to high (0-1), `n` the independent observations. `label` and `validity` are the run's, not the
    metric's. The keys are COLUMNS.
    """
    return [row for summary in summaries for row in _of_run(summary)]


def _of_run(summary: Summary) -> list[TidyRow]:
    run = {name: getattr(summary, name) for name in _OF_RUN}
    run["machine"] = summary.machine.name if summary.machine else None
    point = {name: summary.point.get(name) for name in POINT_COLUMNS}
    return [run | point | _of_metric(name, estimate) for name, estimate in summary.metrics.items()]


def _of_metric(name: str, estimate: Estimate) -> TidyRow:
    label = METRICS[name].label if name in METRICS else name
    return {"metric": name, "metric_label": label} | {part: getattr(estimate, part) for part in _OF_ESTIMATE}


def _plain(value: Any) -> Any:
    """Words of a run without letters that command a terminal."""
    return clean(value, len(value) + 1) if isinstance(value, str) and not value.isprintable() else value


def as_csv(rows: Iterable[TidyRow]) -> str:
    """Tidy rows as CSV with a head, a line each; what is None is empty, and numbers are not rounded."""
    text = StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _plain(value) for name, value in row.items()} for row in rows)
    return text.getvalue()
