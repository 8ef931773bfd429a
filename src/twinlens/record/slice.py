"""Turns of points that are measured together: each row keeps the number of its slice.

Slices of one repeat are numbered over all its points in the order in which they were worked: 0, 1, 2 … are measured,
-1, -2 … came before them to warm up. With k points, slice s belongs to round s // k, in which each point had one turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from twinlens.record.column import floats


@dataclass(frozen=True, slots=True)
class Pairing:
    """How a run was paired, as `pairing` in run.json.

    `id`: equal for the runs that took turns with each other. `points`: how many they were; `slice_s`: how long a turn
    was to be. `origin_ns`: the zero of this run's rows on the machine's monotonic clock, which they share.
    `waited_s`, `waited_cpu_s`: how long this run waited for its turns, and the processor time that its process took
    meanwhile.
    """

    id: str
    points: int
    slice_s: float
    origin_ns: int | None = None
    waited_s: float | None = None
    waited_cpu_s: float | None = None


def slices_of(table: pa.Table) -> np.ndarray:
    """The slice of each row as a float; NaN where it has none or the run is older than the column."""
    if "slice" not in table.column_names:
        return np.full(len(table), np.nan)
    return floats(table.column("slice"), exact=True)


def spans_of(slices: np.ndarray, begin_ns: np.ndarray, end_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slices that some rows [n] are of: their numbers in order, when the first row of each began and when the last
    ended, ns (int64)."""
    numbers, place = np.unique(slices, return_inverse=True)
    first = np.full(len(numbers), np.iinfo(np.int64).max)
    last = np.full(len(numbers), np.iinfo(np.int64).min)
    np.minimum.at(first, place, begin_ns)
    np.maximum.at(last, place, end_ns)
    return numbers, first, last


def without_waiting(begin_ns: np.ndarray, end_ns: np.ndarray, slices: np.ndarray) -> np.ndarray:
    """How much waiting lies before each row, in ns [n] (int64): what to take off its times. 0 where nothing waited.

    Between the last end of one slice and the first begin of the next nobody worked for this point.
    """
    known = np.isfinite(slices)
    if not known.any():
        return np.zeros(len(slices), np.int64)
    numbers, first, last = spans_of(slices[known], begin_ns[known], end_ns[known])
    waited = np.concatenate([[0], np.cumsum(np.maximum(first[1:] - last[:-1], 0))])
    waiting_ns = np.zeros(len(slices), np.int64)
    waiting_ns[known] = waited[np.searchsorted(numbers, slices[known])]
    return waiting_ns
