"""A log that is read while it is written: its rows as their lines come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.trainer_log.command import Command, in_words
from twinlens.executors.trainer_log.placed import placed
from twinlens.executors.trainer_log.rows import Reading, Rows
from twinlens.executors.trainer_log.step_record import Reader, StepRecord
from twinlens.executors.trainer_log.tail import Tail
from twinlens.record.step import Marks


class Live:
    """`command`: the one that writes it, whose rows stand on the clock of the run; None: somebody else's trainer does,
    and its rows stand on the log's own."""

    def __init__(self, tail: Tail, read: Reader, reading: Reading, command: Command | None) -> None:
        self.command, self._tail, self._said, self._reading = command, tail, read(tail.lines()), reading
        self._first: Marks | None = None
        self._unread, self._given, self._between_ns, self._ahead_ns = 0, 0, 0, 0

    def first(self) -> StepRecord | None:
        """Wait for the first record; None where the log ends without one."""
        record = next(self._records(), None)
        self._first = None if record is None else self._reading.row(record)
        return record

    def marks(self) -> Iterator[Marks]:
        """Rows until the log ends. Raises ExecutorFailed (TL302) where its command failed, BadInput (TL207) where it
        ended before any row."""
        if self.command is None:
            yield from (self._first,) if self._first is not None else ()
            yield from (row for row, _ in self._rest())
            return
        origin_ns = time.monotonic_ns()  # the first line came before it: sampling begins with the rows
        for marks in placed(self._timed(origin_ns)):
            self._given += marks.kind == "step"
            self._between_ns += (marks.end_ns - marks.begin_ns) * (marks.kind == "between")
            self._ahead_ns = max(0, marks.end_ns - (time.monotonic_ns() - origin_ns))
            yield marks
        self.command.refuse_failure()
        if not self._given:
            count = self.rows().lines
            raise BadInput(
                f"{self.command.words[0]} ended too soon: {count:,} step{'s' * (count != 1)} ended before this machine "
                "began to be sampled; let it train for longer",
                code="TL207",
            )

    def rows(self) -> Rows:
        """What all lines so far come to."""
        return self._reading.rows()

    @property
    def unread(self) -> int:
        """Lines that cannot be read, a last one without its end among them."""
        return self._unread + self._tail.is_cut

    def told(self) -> dict[str, Any]:
        """What the finding says of it beside what every log has."""
        if self.command is None:
            return {"followed": True}
        return {
            "command": in_words(self.command.words),
            "before": self.rows().lines - self._given,
            "between_s": self._between_ns / 1e9,
            "ahead_s": self._ahead_ns / 1e9,
        }

    def _rest(self) -> Iterator[tuple[Marks, StepRecord]]:
        return ((row, record) for record in self._records() if (row := self._reading.row(record)) is not None)

    def _timed(self, origin_ns: int) -> Iterator[tuple[Marks, int]]:
        return ((row, self._tail.came_ns(record.line) - origin_ns) for row, record in self._rest())

    def _records(self) -> Iterator[StepRecord]:
        for said in self._said:
            if isinstance(said, StepRecord):
                yield said
            elif said is None:
                self._unread += 1
            else:
                self._reading.peaks(said)


def followed(path: Path, silent_s: float, read: Reader, reading: Reading) -> Live:
    """A log from its first line on, until it has been silent for so long."""
    tail: Tail = Tail(path, 0, lambda: time.monotonic_ns() - tail.heard_ns > silent_s * 1e9)
    return Live(tail, read, reading, None)


def printed_by(command: Command, path: Path, begin: int, read: Reader, reading: Reading) -> Live:
    """What a command writes to `path` from byte `begin` on, until it ends."""
    return Live(Tail(path, begin, command.is_over), read, reading, command)
