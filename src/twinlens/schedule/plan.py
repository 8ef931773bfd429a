"""A whole schedule as columns: computed first from a seed, stored with the run, read one request at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, overload

import numpy as np
import pyarrow as pa

from twinlens.schedule.request import ScheduledRequest

SCHEDULE_SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("group", pa.int64()),
        ("intended_ns", pa.int64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("prefix_tokens", pa.int64()),
        ("prefix_id", pa.int64()),
        ("session", pa.int64()),
        ("turn", pa.int64()),
        ("think_ns", pa.int64()),
        ("blocks", pa.list_(pa.int64())),
        ("seed", pa.int64()),
    ]
)
NONE = -1
"""Stands in a column of a plan for what a request does not have; null in the stored table."""

_OPTIONAL = ("prefix_id", "session", "turn", "think_ns")
_OWN, _SESSION = 0, 1  # the second number of a request's seed: what its third one counts


@dataclass(frozen=True, eq=False, slots=True)
class Plan(Sequence[ScheduledRequest]):
    """Asks as int64 columns of one length; a million plain ones are 24 MB. Optional columns are None where unused.

    `intended_ns` is NONE for a later turn of a session, due `think_ns` after the end of the turn before; the rows of a
    session follow one another. `seed` is the prompts' seed. `blocks` of row i are `block_ids[block_offsets[i]:…[i+1]]`.
    """

    seed: int
    intended_ns: np.ndarray
    input_tokens: np.ndarray
    output_tokens: np.ndarray
    first_number: int = 0
    prefix_tokens: np.ndarray | None = None
    prefix_id: np.ndarray | None = None
    session: np.ndarray | None = None
    turn: np.ndarray | None = None
    think_ns: np.ndarray | None = None
    block_offsets: np.ndarray | None = None
    block_ids: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.intended_ns)

    @overload
    def __getitem__(self, row: int) -> ScheduledRequest: ...
    @overload
    def __getitem__(self, row: slice) -> list[ScheduledRequest]: ...
    def __getitem__(self, row: int | slice) -> ScheduledRequest | list[ScheduledRequest]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        row = range(len(self))[row]
        number = self.first_number + row
        session, turn = _at(self.session, row), _at(self.turn, row)
        is_turn = session is not None and turn is not None
        return ScheduledRequest(
            number=number,
            group=number,
            intended_ns=int(self.intended_ns[row]),
            input_tokens=int(self.input_tokens[row]),
            output_tokens=int(self.output_tokens[row]),
            seed=(self.seed, _SESSION, session) if session is not None and is_turn else (self.seed, _OWN, number),
            prefix_tokens=_at(self.prefix_tokens, row) or 0,
            prefix_id=_at(self.prefix_id, row),
            session=session,
            turn=turn,
            history=self._history(row, turn) if turn is not None and is_turn else (),
            blocks=self._blocks(row),
        )

    def to_table(self) -> pa.Table:
        """The plan as an Arrow table with SCHEDULE_SCHEMA; what a request does not have is null."""
        count = len(self)
        numbers = np.arange(self.first_number, self.first_number + count)
        columns: dict[str, Any] = {
            "number": numbers,
            "group": numbers,
            "intended_ns": _nullable(self.intended_ns, count),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "prefix_tokens": self.prefix_tokens if self.prefix_tokens is not None else np.zeros(count, dtype=np.int64),
            "seed": np.full(count, self.seed),
        }
        columns |= {name: _nullable(getattr(self, name), count) for name in _OPTIONAL}
        columns["blocks"] = (
            pa.nulls(count, pa.list_(pa.int64()))
            if self.block_offsets is None
            else pa.ListArray.from_arrays(self.block_offsets.astype(np.int32), self.block_ids)
        )
        return pa.table(columns, schema=SCHEDULE_SCHEMA)

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """The plan that `to_table` made the table of."""
        table = table.combine_chunks()
        numbers, seeds = _column(table, "number"), _column(table, "seed")
        blocks = table.column("blocks").combine_chunks() if len(table) else None
        has_blocks = blocks is not None and blocks.null_count < len(table)
        optional = {
            name: None if table.column(name).null_count == len(table) else _column(table, name) for name in _OPTIONAL
        }
        prefix_tokens = _column(table, "prefix_tokens")
        return cls(
            seed=int(seeds[0]) if len(seeds) else 0,
            first_number=int(numbers[0]) if len(numbers) else 0,
            intended_ns=_column(table, "intended_ns"),
            input_tokens=_column(table, "input_tokens"),
            output_tokens=_column(table, "output_tokens"),
            prefix_tokens=prefix_tokens if prefix_tokens.any() else None,
            block_offsets=blocks.offsets.to_numpy().astype(np.int64) if has_blocks and blocks is not None else None,
            block_ids=blocks.values.to_numpy() if has_blocks and blocks is not None else None,
            **optional,
        )

    def behind(self, prefix_id: np.ndarray, prefix_tokens: np.ndarray) -> Self:
        """The same asks with shared prefixes put before them; both of shape (asks,)."""
        whole = self.input_tokens + prefix_tokens
        return replace(self, input_tokens=whole, prefix_id=prefix_id, prefix_tokens=prefix_tokens)

    def _history(self, row: int, turn: int) -> tuple[int, ...]:
        """The history of a session, from lengths alone: a prompt is the one before, its answer, and what the user
        adds."""
        lengths: list[int] = []
        before = _at(self.prefix_tokens, row) or 0
        for i in range(row - turn, row + 1):
            lengths.append(int(self.input_tokens[i]) - before)
            if i < row:
                lengths.append(int(self.output_tokens[i]))
            before = int(self.input_tokens[i] + self.output_tokens[i])
        return tuple(lengths)

    def _blocks(self, row: int) -> tuple[int, ...]:
        if self.block_offsets is None or self.block_ids is None:
            return ()
        return tuple(self.block_ids[self.block_offsets[row] : self.block_offsets[row + 1]].tolist())


def _at(column: np.ndarray | None, row: int) -> int | None:
    return None if column is None or column[row] == NONE else int(column[row])


def _nullable(column: np.ndarray | None, count: int) -> Any:
    if column is None:
        return pa.nulls(count, pa.int64())
    return pa.array(column, mask=column == NONE)


def _column(table: pa.Table, name: str) -> np.ndarray:
    return np.asarray(table.column(name).fill_null(NONE).to_numpy(), dtype=np.int64)
