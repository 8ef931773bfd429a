"""Rows of several clients as one stream, in the order of their ends, as they come."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

_NEVER = 1 << 62


class RowMerge:
    """Holds a row back until every client has said that it has reported all that ended before it.

    A row that comes later than its client said goes out at once, a little out of order: nothing is dropped.
    """

    def __init__(self, clients: int, write: Callable[[pa.Table], None]) -> None:
        self._upto_ns = [0] * clients
        self._waiting: list[pa.Table] = []
        self._write = write

    def take(self, client: int, rows: pa.Table | None, upto_ns: int) -> None:
        """Rows of a client, which has now reported all that ended before `upto_ns`."""
        if rows is not None and len(rows):
            self._waiting.append(rows)
        self._upto_ns[client] = max(self._upto_ns[client], upto_ns)

    def over(self, client: int) -> None:
        """Nothing more will come from this client."""
        self._upto_ns[client] = _NEVER

    def flush(self) -> None:
        """Write what can be written."""
        self._flush(min(self._upto_ns))

    def close(self) -> None:
        """Write all that is left."""
        self._flush(_NEVER)

    def _flush(self, until_ns: int) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting).sort_by("end_ns")
        cut = int(np.searchsorted(rows.column("end_ns").to_numpy(), until_ns, side="right"))
        if cut:
            self._write(rows.slice(0, cut))
        # Taken, not sliced: a slice would keep the memory of what has been written.
        rest = rows.take(np.arange(cut, len(rows)))
        self._waiting = [rest] if len(rest) else []
