"""Columns of Arrow as numpy arrays, by DLPack: pyarrow's own `to_numpy` imports pandas where it is installed (0.15 s).

Each column is copied once, from the batches on disk into one array.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

_TYPES = {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "tuple[int, ...]": pa.list_(pa.int64())}


def schema_of(row: Any, **narrow: pa.DataType) -> pa.Schema:
    """The columns of rows of a dataclass, by its fields and their annotations; words where that is another name.

    `narrow`: types of columns that hold less.
    """
    kinds = {field.name: str(field.type).removesuffix(" | None") for field in fields(row)}
    return pa.schema([(name, narrow.get(name, _TYPES.get(kind, pa.string()))) for name, kind in kinds.items()])


def numbers(column: pa.ChunkedArray) -> np.ndarray:
    """The values [n] of a column of numbers without nulls."""
    parts = [np.from_dlpack(chunk) for chunk in column.chunks if len(chunk)]
    return np.concatenate(parts) if parts else np.zeros(0, column.type.to_pandas_dtype())


def floats(column: pa.ChunkedArray, *, exact: bool = False) -> np.ndarray:
    """The values [n] of a column of numbers as floats, NaN where null. Beyond 2^53 they are rounded.

    `exact`: those raise ArrowInvalid instead.
    """
    if column.null_count == len(column):
        return np.broadcast_to(np.nan, len(column))
    as_floats = column.cast(pa.float64(), safe=exact)
    return numbers(as_floats.fill_null(np.nan) if column.null_count else as_floats)


def words(column: pa.ChunkedArray) -> np.ndarray:
    """The words [n] of a column, None where null. Few are distinct: each is decoded once, not once a row."""
    found = column.combine_chunks().dictionary_encode()
    if isinstance(found, pa.ChunkedArray):  # no rows: nothing to combine
        return np.zeros(0, dtype=object)
    known = np.array([*found.dictionary.to_pylist(), None], dtype=object)
    places = found.indices.fill_null(len(known) - 1) if found.null_count else found.indices
    return np.asarray(known[np.from_dlpack(places)])


def lists(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Lists of numbers without nulls: list i is `values[offsets[i]:offsets[i + 1]]`. Shapes: (n + 1,), (values,)."""
    offsets, values, size = [np.zeros(1, np.int64)], [], 0
    for chunk in column.chunks:
        if len(chunk):
            bounds = np.from_dlpack(chunk.offsets).astype(np.int64)
            values.append(np.from_dlpack(chunk.values)[bounds[0] : bounds[-1]])
            offsets.append(bounds[1:] + (size - bounds[0]))
            size += len(values[-1])
    return np.concatenate(offsets), _joined(values, column.type.value_type)


def _joined(parts: list[np.ndarray], kind: pa.DataType) -> np.ndarray:
    """Parts on end in one array; where all are 1, as tokens of a chunk mostly are, an array that takes no memory."""
    if parts and all((part == 1).all() for part in parts):
        return np.broadcast_to(parts[0].dtype.type(1), sum(map(len, parts)))
    return np.concatenate(parts) if parts else np.zeros(0, kind.to_pandas_dtype())


# Turns of points that are measured together: each row keeps the number of its slice.
#
# Slices of one repeat are numbered over all its points in the order in which they were worked: 0, 1, 2 … are measured,
# -1, -2 … came before them to warm up. With k points, slice s is of round s // k, in which each point had one turn.


@dataclass(frozen=True, slots=True)
class Pairing:
    """How a run was paired, as `pairing` in run.json.

    `id`: equal for the runs that took turns with each other. `points`: how many they were; `place`: of this one as the
    spec lists them, from 0, None in runs of older versions; `slice_s`: how long a turn was to be.
    `origin_ns`: the zero of this run's rows on the machine's monotonic clock, which they share.
    `waited_s`, `waited_cpu_s`: how long this run waited for its turns, and the processor time that its process took
    meanwhile.
    """

    id: str
    points: int
    slice_s: float
    origin_ns: int | None = None
    waited_s: float | None = None
    waited_cpu_s: float | None = None
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """The process that listens at the address that was asked: a server, or a gateway in front of it.

    `cpu_s`: processor time that it and its children took in this run's measured turns, None where it cannot be known,
    with the reason in `why`.
    """

    pid: int | None = None
    name: str = ""
    cpu_s: float | None = None
    why: str = ""


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
