"""Checks on the rows of a pack: values that no run can have, whoever signed them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.stats.summary.group import Summary

_SLACK_S = 3.0  # start and end are written in whole seconds
_MOST_OF_CEILING = 1.2  # a ceiling is measured, too
_TIMES = "%Y-%m-%dT%H%M%SZ"
_SHARES = ("mfu", "mbu")


def implausible(run: Run, summary: Summary) -> Iterator[Finding]:
    """One finding for each kind of value that cannot be; none for a run that may have happened."""
    for what, numbers in (*_rows(run), *_wall_time(run), *_ceilings(summary)):
        yield Finding("pack-implausible", "disqualifies", run.id, {"what": what} | dict(numbers))


def _rows(run: Run) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if run.lens != "inference" or not run.table.num_rows:
        return
    rows = run.requests
    counts = {
        "tokens-above-limit": rows.ok & (rows.output_tokens > rows.asked_tokens),  # NaN where none was asked
        "sent-before-due": rows.sent_ns < rows.intended_ns,
        "ended-before-sent": rows.ok & (rows.end_ns < rows.sent_ns),
        "tokens-before-sent": _before(rows.chunk_ns, rows.offsets, rows.sent_ns),
    }
    for what, wrong in counts.items():
        if count := int(np.count_nonzero(wrong)):
            yield what, {"count": count, "rows": len(rows)}


def _before(chunk_ns: np.ndarray, offsets: np.ndarray, sent_ns: np.ndarray) -> np.ndarray:
    """`sent_ns` [n]: rows whose first chunk came before they were sent."""
    some = offsets[:-1] < offsets[1:]
    found = np.zeros(len(sent_ns), dtype=bool)
    found[some] = chunk_ns[offsets[:-1][some]] < sent_ns[some]
    return found


def _wall_time(run: Run) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        began, ended = (datetime.strptime(each, _TIMES) for each in (run.started_utc, run.ended_utc or ""))
    except ValueError:
        return
    if run.place == "recorded" or not run.table.num_rows or run.spec.executor.kind == "fake":
        return  # their rows have a clock of their own
    begin = run.table.column("intended_ns" if run.lens == "inference" else "begin_ns").to_numpy().min()
    span_s = float(run.table.column("end_ns").to_numpy().max() - begin) / 1e9
    wall_s = (ended - began).total_seconds()
    if span_s > wall_s + _SLACK_S:
        yield "longer-than-the-run", {"rows_s": span_s, "run_s": wall_s}


def _ceilings(summary: Summary) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in _SHARES:
        share = summary.metrics.get(name)
        if share is not None and share.value is not None and share.value > _MOST_OF_CEILING:
            yield "above-ceiling", {"metric": name, "share": share.value}
