"""Columns of Arrow as numpy arrays, by DLPack: pyarrow's own `to_numpy` imports pandas where it is installed (0.15 s).

Each column is copied once, from the batches on disk into one array.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa


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
