"""Readings of a server's metrics page made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from twinlens.record.samples import SERVER_SCHEMA, ServerSample


def samples(rows: Iterable[dict[str, Any]], trip_ms: float = 2.0) -> pa.Table:
    """Each row has `at` in seconds and columns."""
    made = [
        ServerSample(
            round(row["at"] * 1e9),
            round(trip_ms * 1e6),
            **{key: value for key, value in row.items() if key != "at"},
        ).to_row()
        for row in rows
    ]
    return pa.Table.from_pylist(made, schema=SERVER_SCHEMA)
