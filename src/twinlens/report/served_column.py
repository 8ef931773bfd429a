"""What stands in which column of a table of served runs; the terminal and the page share it."""

from __future__ import annotations

from twinlens.report.column import Column
from twinlens.report.load import Load

PLACE_HEADS: dict[Load, str] = {"rate": "rate /s", "concurrency": "in flight", "other": "due /s"}
"""The head of the first column: what the points of a load differ in."""


def served_columns() -> tuple[Column, ...]:
    """The columns of served runs: what was done, the two latencies at their median and their tail, what was good."""
    return (
        Column("done /s", ("requests_per_s",), bare=True),
        Column("TTFT p50", ("ttft_s_p50",)),
        Column("TTFT p99", ("ttft_s_p99",)),
        Column("TPOT p50", ("tpot_s_p50",)),
        Column("TPOT p99", ("tpot_s_p99",)),
        Column("within SLO", ("slo_attainment",)),
    )
