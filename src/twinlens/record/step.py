"""One optimizer step (or one evaluation), as it happened: integer nanoseconds and counts, nothing derived."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa

from twinlens.record.slice import slices_of

OF_EACH_RANK = ("begin", "end", "data", "forward", "backward", "communicate", "optimize")
STEP_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("begin_ns", pa.int64()),
        ("data_ns", pa.int64()),
        ("forward_ns", pa.int64()),
        ("backward_ns", pa.int64()),
        ("communicate_ns", pa.int64()),
        ("optimize_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("samples", pa.int64()),
        ("tokens", pa.int64()),
        ("loss", pa.float64()),
        ("tag", pa.string()),
        ("slice", pa.int64()),
        *((f"rank_{name}_ns", pa.list_(pa.int64())) for name in OF_EACH_RANK),
    ]
)


@dataclass(frozen=True, slots=True)
class Marks:
    """A trainer's report of one step. Times are nanoseconds from the start of the run on one monotonic clock.

    `data_ns` … `optimize_ns` are the time spent in each phase, summed over microbatches, with the device synchronised
    at each boundary; None means that the phase does not exist here (not 0). What they leave of `end_ns - begin_ns` is
    unattributed. `samples` are sequences or images; `tokens` is 0 for images. `loss` is in nats per token (or image).
    An "evaluate" row looks at held-out data and trains nothing. `tag` names an event inside it ("compile").
    `slice`: the turn it belongs to, where points take turns (record/slice.py); between turns there is waiting.
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
    kind: Literal["step", "evaluate"] = "step"
    tag: str | None = None
    slice: int | None = None
    rank_begin_ns: tuple[int, ...] | None = None
    rank_end_ns: tuple[int, ...] | None = None
    rank_data_ns: tuple[int, ...] | None = None
    rank_forward_ns: tuple[int, ...] | None = None
    rank_backward_ns: tuple[int, ...] | None = None
    rank_communicate_ns: tuple[int, ...] | None = None
    rank_optimize_ns: tuple[int, ...] | None = None


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

    PHASES = ("data", "forward", "backward", "communicate", "optimize")

    def __len__(self) -> int:
        return len(self.begin_ns)

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """From an Arrow table with STEP_SCHEMA."""
        column = {name: table.column(name) for name in table.column_names}
        return cls(
            kind=_words(column["kind"]),
            begin_ns=column["begin_ns"].to_numpy(),
            end_ns=column["end_ns"].to_numpy(),
            phases_ns={name: _floats(column[f"{name}_ns"]) for name in cls.PHASES},
            samples=column["samples"].to_numpy(),
            tokens=column["tokens"].to_numpy(),
            loss=_losses(column["loss"]),
            tag=_words(column["tag"]),
            slice=slices_of(table),
            spread_ns=_spread(table),
        )

    def where(self, chosen: np.ndarray | builtins.slice) -> Self:
        """The rows that a boolean mask, indexes or a slice keeps; of a slice they are views of these."""
        return type(self)(
            kind=self.kind[chosen],
            begin_ns=self.begin_ns[chosen],
            end_ns=self.end_ns[chosen],
            phases_ns={name: values[chosen] for name, values in self.phases_ns.items()},
            samples=self.samples[chosen],
            tokens=self.tokens[chosen],
            loss=self.loss[chosen],
            tag=self.tag[chosen],
            slice=self.slice[chosen],
            spread_ns=self.spread_ns[chosen],
        )


_WORKED = ("data", "forward", "backward", "optimize")


def _spread(table: pa.Table) -> np.ndarray:
    """Only where waiting for the others has a column of its own is the rest a rank's own work."""
    spread = np.full(len(table), np.nan)
    if "rank_communicate_ns" not in table.column_names:
        return spread
    known = table.column("rank_communicate_ns").is_valid()
    if (rows := int(np.asarray(known).sum())) == 0:
        return spread
    columns = [table.column(f"rank_{name}_ns").filter(known).combine_chunks() for name in _WORKED]
    worked = sum(column.flatten().to_numpy().reshape(rows, -1) for column in columns)
    spread[np.asarray(known)] = np.ptp(worked, axis=1)
    return spread


def _losses(column: Any) -> np.ndarray:
    loss, recorded = _floats(column), column.is_valid().to_numpy(zero_copy_only=False)
    return np.where(recorded & ~np.isfinite(loss), np.inf, loss)


def _words(column: Any) -> np.ndarray:
    """Few distinct words, maybe a million rows: each is decoded once, not once a row. None where there is none."""
    words = column.combine_chunks().dictionary_encode()
    if isinstance(words, pa.ChunkedArray):  # no rows: nothing to combine
        return np.zeros(0, dtype=object)
    known = np.array([*words.dictionary.to_pylist(), None], dtype=object)
    return np.asarray(known[words.indices.fill_null(len(known) - 1).to_numpy()])


def _floats(column: Any) -> np.ndarray:
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
