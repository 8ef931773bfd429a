"""Optimizer steps, evaluations and exchanges between ranks: integer nanoseconds and counts, nothing derived."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, Self

import numpy as np
import pyarrow as pa

from twinlens.record.column import floats, lists, numbers, schema_of, slices_of, words


@dataclass(frozen=True, slots=True)
class Marks:
    """A trainer's report of one step. Times are nanoseconds from the start of the run on one monotonic clock.

    `data_ns` … `optimize_ns` are the time spent in each phase, summed over microbatches, with the device synchronised
    at each boundary; None means that the phase does not exist here (not 0). What they leave of `end_ns - begin_ns` is
    unattributed. `samples` are sequences or images; `tokens` is 0 for images. `loss` is in nats per token (or image).
    `checkpoint_ns`: the time that a save blocked the step. An "evaluate" row looks at held-out data and trains nothing;
    a "recover" row is the time from the loss of a rank until training goes on; a "between" row is what lay between two
    steps of a trainer whose log alone is read, and does not say what it was. `tag` names an event inside a row:
    "compile", "skipped", "saving" (a save was being written beside it), "repeat" (a step done before and lost),
    of a watched loop "examined" (evidence was taken) and "no-grad" (the model also ran without gradients), and of a log
    "starting" (the first line of a process, whose time holds what is done once).
    `slice`: the turn it belongs to, where points take turns (record/column.py); between turns there is waiting.
    `rank_…_ns`: of a step of several processes, the same of each rank; None where there is one, or none knows.
    """

    begin_ns: int
    end_ns: int
    samples: int
    tokens: int
    loss: float | None = None
    data_ns: int | None = None
    forward_ns: int | None = None
    backward_ns: int | None = None
    communicate_ns: int | None = None
    optimize_ns: int | None = None
    kind: Literal["step", "evaluate", "recover", "between"] = "step"
    tag: str | None = None
    slice: int | None = None
    rank_begin_ns: tuple[int, ...] | None = None
    rank_end_ns: tuple[int, ...] | None = None
    rank_data_ns: tuple[int, ...] | None = None
    rank_forward_ns: tuple[int, ...] | None = None
    rank_backward_ns: tuple[int, ...] | None = None
    rank_communicate_ns: tuple[int, ...] | None = None
    rank_optimize_ns: tuple[int, ...] | None = None
    checkpoint_ns: int | None = None


STEP_SCHEMA = schema_of(Marks)


def step_table(rows: Sequence[Marks]) -> pa.Table:
    """Rows as a table with STEP_SCHEMA."""
    columns = [pa.array([getattr(row, field.name) for row in rows], field.type) for field in STEP_SCHEMA]
    return pa.Table.from_arrays(columns, schema=STEP_SCHEMA)


@dataclass(frozen=True, slots=True)
class Steps:
    """The rows of a training run as columns, one entry a row. Phases that do not exist are NaN; tags are None.

    `spread_ns`: what the slowest rank worked longer than the fastest, waiting left out; NaN where that is not known.

    `slice` is a float, NaN where a row is of no slice. `loss` is NaN where none was recorded, `inf` where one was that
    is no number: such training has diverged, which is not the same as nothing known.
    """

    kind: np.ndarray
    begin_ns: np.ndarray
    end_ns: np.ndarray
    phases_ns: dict[str, np.ndarray]
    samples: np.ndarray
    tokens: np.ndarray
    loss: np.ndarray
    tag: np.ndarray
    slice: np.ndarray
    spread_ns: np.ndarray

    PHASES = ("data", "forward", "backward", "communicate", "optimize", "checkpoint")

    def __len__(self) -> int:
        return len(self.begin_ns)

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """From an Arrow table with STEP_SCHEMA."""
        column = {name: table.column(name) for name in table.column_names}
        return cls(
            kind=words(column["kind"]),
            begin_ns=numbers(column["begin_ns"]),
            end_ns=numbers(column["end_ns"]),
            phases_ns={name: floats(column[f"{name}_ns"], exact=True) for name in cls.PHASES},
            samples=numbers(column["samples"]),
            tokens=numbers(column["tokens"]),
            loss=_losses(column["loss"]),
            tag=words(column["tag"]),
            slice=slices_of(table),
            spread_ns=_spread(table),
        )

    def where(self, chosen: np.ndarray | builtins.slice) -> Self:
        """The rows that a boolean mask, indexes or a slice keeps; of a slice they are views of these."""
        phases_ns = {name: values[chosen] for name, values in self.phases_ns.items()}
        others = {each.name: getattr(self, each.name)[chosen] for each in fields(self) if each.name != "phases_ns"}
        return type(self)(phases_ns=phases_ns, **others)


_WORKED = ("data", "forward", "backward", "optimize")


def _spread(table: pa.Table) -> np.ndarray:
    """Only where waiting for the others has a column of its own is the rest a rank's own work."""
    name = "rank_communicate_ns"
    if name not in table.column_names or table.column(name).null_count == len(table):
        return np.broadcast_to(np.nan, len(table))
    spread = np.full(len(table), np.nan)
    is_known = table.column(name).is_valid()
    columns = [lists(table.column(f"rank_{part}_ns").filter(is_known))[1] for part in _WORKED]
    known = numbers(is_known.cast(pa.uint8())) > 0
    spread[known] = np.ptp(sum(values.reshape(int(known.sum()), -1) for values in columns), axis=1)
    return spread


def _losses(column: pa.ChunkedArray) -> np.ndarray:
    loss = floats(column)
    endless = ~np.isfinite(loss)
    if column.null_count:
        endless &= numbers(column.is_valid().cast(pa.uint8())) > 0
    return np.where(endless, np.inf, loss)


# One exchange between ranks, as it happened: integer nanoseconds, nothing derived.


@dataclass(frozen=True, slots=True)
class Exchange:
    """The report of one exchange. Times are nanoseconds from the start of the run on one monotonic clock.

    It lasts from the first rank's beginning to the last rank's end, after a barrier. `rank_ns`: how long it took each
    rank, by rank; the exchange has taken as long as the slowest of them.
    """

    begin_ns: int
    end_ns: int
    rank_ns: tuple[int, ...]


EXCHANGE_SCHEMA = schema_of(Exchange)


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
