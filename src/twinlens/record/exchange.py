"""One exchange between ranks, as it happened: integer nanoseconds, nothing derived."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from twinlens.record.column import lists, numbers

EXCHANGE_SCHEMA = pa.schema(
    [("begin_ns", pa.int64()), ("end_ns", pa.int64()), ("rank_ns", pa.list_(pa.int64()))],
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """The report of one exchange. Times are nanoseconds from the start of the run on one monotonic clock.

    It lasts from the first rank's beginning to the last rank's end, after a barrier. `rank_ns`: how long it took each
    rank, by rank; the exchange has taken as long as the slowest of them.
    """

    begin_ns: int
    end_ns: int
    rank_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exchanges:
    """The rows of a run as columns, one entry a row. `rank_ns` [n, ranks]."""

    begin_ns: np.ndarray
    end_ns: np.ndarray
    rank_ns: np.ndarray

    def __len__(self) -> int:
        return len(self.begin_ns)

    @property
    def slowest_ns(self) -> np.ndarray:
        """How long each exchange took, [n]: the slowest rank's time."""
        return np.asarray(self.rank_ns.max(axis=1) if len(self) else np.zeros(0, np.int64))

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """From an Arrow table with EXCHANGE_SCHEMA. Raises ArrowInvalid where rows have unequal numbers of ranks."""
        count = len(table)
        offsets, values = lists(table.column("rank_ns"))
        ranks = int(offsets[1]) if count else 0
        if count and (ranks < 1 or not np.array_equal(offsets, np.arange(count + 1) * ranks)):
            raise pa.ArrowInvalid("rows have unequal numbers of ranks")
        return cls(numbers(table.column("begin_ns")), numbers(table.column("end_ns")), values.reshape(count, ranks))

    def where(self, chosen: np.ndarray | builtins.slice) -> Self:
        """The rows that a boolean mask, indexes or a slice keeps."""
        return type(self)(self.begin_ns[chosen], self.end_ns[chosen], self.rank_ns[chosen])
