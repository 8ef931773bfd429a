"""One request, as it happened: integer nanoseconds and counts, nothing derived."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
import pyarrow as pa

from twinlens.record.column import floats, lists, numbers, schema_of, slices_of, without_waiting, words

RequestOutcome = Literal["ok", "refused", "failed", "cut_off"]

UNCOUNTED = "the server did not count the tokens of its prompts"
"""Why a figure of input tokens is not known where `input_tokens` is None."""
Loss = Literal["never open", "broken", "closed"]


@dataclass(frozen=True, slots=True)
class Request:
    """Times are nanoseconds from the start of the run on one monotonic clock.

    `group`: requests issued together as one batch share it; they are one observation, not many.
    `chunk_ns[i]`: when chunk i, holding `chunk_tokens[i]` output tokens, was there. An image has one chunk of 0 tokens.
    `outcome`: ok, refused (never started), failed, or cut_off (fewer tokens than asked).
    `input_tokens`: as the server counted or as was asked; None where a page asked and the server did not count.
    What the schedule knew, None where it says nothing: `asked_tokens`, the answer's length as asked; `released_ns`,
    when an admission policy let it go; `session` and `turn`, its place in a conversation.
    What only a client over a network knows, None elsewhere: `status`, the HTTP status; `error`, why it is not ok;
    `loss`, how the connection was lost where that is why: never open, broken, or closed by the server;
    `lag_ns`, the longest time that bytes of this answer lay in this machine before the client took them;
    `merged_reads`, reads that took several chunks at once, whose chunks share the last one's time; `reasoning_chunks`,
    how many of the chunks, the first ones, hold reasoning rather than the answer; `client`, which of several asked.
    `slice`: the turn it belongs to, where points take turns (record/column.py).
    """

    group: int
    intended_ns: int
    sent_ns: int
    chunk_ns: tuple[int, ...]
    chunk_tokens: tuple[int, ...]
    end_ns: int
    input_tokens: int | None
    output_tokens: int
    outcome: RequestOutcome = "ok"
    asked_tokens: int | None = None
    released_ns: int | None = None
    session: int | None = None
    turn: int | None = None
    status: int | None = None
    error: str | None = None
    loss: Loss | None = None
    lag_ns: int | None = None
    merged_reads: int | None = None
    reasoning_chunks: int | None = None
    client: int | None = None
    slice: int | None = None


REQUEST_SCHEMA = schema_of(
    Request,
    chunk_tokens=pa.list_(pa.int32()),
    **dict.fromkeys(("status", "merged_reads", "reasoning_chunks", "client"), pa.int32()),
)


@dataclass(frozen=True, slots=True)
class Requests:
    """The rows of an inference run as columns. Chunks of row i are `chunk_*[offsets[i]:offsets[i + 1]]`.

    `asked_tokens`, `released_ns`, `session`, `turn`, `slice` and `reasoning_chunks` are floats, NaN where a row says
    nothing; `input_tokens` are whole numbers where every row says how many. `ok`: whether the outcome is "ok",
    found once: each look at a million words takes 10 ms.
    """

    group: np.ndarray
    intended_ns: np.ndarray
    sent_ns: np.ndarray
    end_ns: np.ndarray
    input_tokens: np.ndarray
    output_tokens: np.ndarray
    outcome: np.ndarray
    offsets: np.ndarray
    chunk_ns: np.ndarray
    chunk_tokens: np.ndarray
    asked_tokens: np.ndarray
    released_ns: np.ndarray
    session: np.ndarray
    turn: np.ndarray
    slice: np.ndarray
    reasoning_chunks: np.ndarray
    ok: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ok", np.asarray(self.outcome == "ok", dtype=bool))

    def __len__(self) -> int:
        return len(self.intended_ns)

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """From an Arrow table with REQUEST_SCHEMA."""
        offsets, chunk_ns = lists(table.column("chunk_ns"))
        _, chunk_tokens = lists(table.column("chunk_tokens"))
        plain = {
            name: numbers(table.column(name)) for name in ("group", "intended_ns", "sent_ns", "end_ns", "output_tokens")
        }
        asked = table.column("input_tokens")
        return cls(
            outcome=words(table.column("outcome")),
            offsets=offsets,
            chunk_ns=chunk_ns,
            chunk_tokens=chunk_tokens,
            **plain,
            input_tokens=floats(asked) if asked.null_count else numbers(asked),
            **{name: _nullable(table, name) for name in ("asked_tokens", "released_ns", "session", "turn")},
            slice=slices_of(table),
            reasoning_chunks=_nullable(table, "reasoning_chunks"),
        )

    def disorder(self) -> str:
        """What no clock gives, of answers that ended well: an end or a chunk before its request, or chunks out of
        order; "" where all is in order."""
        ok, begin_ns = self.ok, np.maximum(self.intended_ns, self.sent_ns)
        if (ok & (self.end_ns < begin_ns)).any() or (self.end_ns < self.intended_ns).any():
            return "a request ends before it begins"
        some = ok & (self.offsets[:-1] < self.offsets[1:])
        if (self.chunk_ns[self.offsets[:-1][some]] < begin_ns[some]).any():
            return "an answer begins before its request"
        back = self.chunk_ns[1:] < self.chunk_ns[:-1]
        back[self.offsets[(self.offsets > 0) & (self.offsets < len(self.chunk_ns))] - 1] = False  # of two answers
        rows = np.searchsorted(self.offsets, np.flatnonzero(back) + 1, side="right") - 1
        return "the chunks of an answer are out of order" if ok[rows].any() else ""

    def own_time(self) -> Self:
        """The same rows with the waiting between slices taken out of their times; these rows where there is none."""
        waited = without_waiting(self.intended_ns, self.end_ns, self.slice)
        if not waited.any():
            return self
        return replace(
            self,
            intended_ns=self.intended_ns - waited,
            sent_ns=self.sent_ns - waited,
            end_ns=self.end_ns - waited,
            released_ns=self.released_ns - waited,
            chunk_ns=self.chunk_ns - np.repeat(waited, np.diff(self.offsets)),
        )

    def first_chunk_ns(self) -> np.ndarray:
        """Time of each row's first chunk; NaN where none came. Shape: (rows,)."""
        return self._chunk_at(self.offsets[:-1])

    def first_answer_ns(self) -> np.ndarray:
        """Time of each row's first chunk that is no reasoning; NaN where none came. Shape: (rows,)."""
        thought = np.nan_to_num(self.reasoning_chunks).astype(np.int64)
        return self._chunk_at(self.offsets[:-1] + thought)

    def last_chunk_ns(self) -> np.ndarray:
        """Time of each row's last chunk; NaN where none came. Shape: (rows,)."""
        return self._chunk_at(self.offsets[1:] - 1)

    def _chunk_at(self, positions: np.ndarray) -> np.ndarray:
        has = (positions >= self.offsets[:-1]) & (positions < self.offsets[1:])
        if has.all():
            return np.asarray(self.chunk_ns[positions], dtype=float)
        times_ns = np.full(len(self), np.nan)
        times_ns[has] = self.chunk_ns[positions[has]]
        return times_ns


def _nullable(table: pa.Table, name: str) -> np.ndarray:
    """A column as floats, NaN where null or where the run is older than the column. Exact up to 2^53."""
    if name not in table.column_names:
        return np.full(len(table), np.nan)
    return floats(table.column(name))
