"""A log that is read while it is written: its rows as their lines come."""

from __future__ import annotations

import codecs
import io
import os
import shlex
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.launch.process import Process
from twinlens.executors.trainer_log.rows import Reader, Reading, Rows, StepRecord
from twinlens.record.executor.record import Fact, observed, unknown
from twinlens.record.step import Marks
from twinlens.system.log import read_log, telling_line
from twinlens.system.nvml import open_gpus
from twinlens.system.processes import tree


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


POLL_S = 0.05
_MOST_BYTES = 2**18
_LONGEST = 20_000
_MOST_READS = 4096


class Tail:
    """`path` may not be there yet. `begin`: the byte from which it is read. `is_over`: nothing more is being written,
    so that a read which gives nothing is the last."""

    def __init__(self, path: Path, begin: int, is_over: Callable[[], bool]) -> None:
        self._path, self._at, self._is_over = path, begin, is_over
        self._reads = deque[tuple[int, int]](maxlen=_MOST_READS)
        self.heard_ns = time.monotonic_ns()
        self.is_cut = False

    def lines(self) -> Iterator[str]:
        """Whole lines as they come, of at most 20,000 letters; waits for the next one. A last line without its end is
        left out (`is_cut`), for it may be cut inside a number."""
        decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
        count, rest = 0, ""
        while True:
            over = self._is_over()  # before the read: what was written until then is in it
            if data := self._read():
                *whole, rest = (rest + decoder.decode(data)).split("\n")
                rest = rest[:_LONGEST]
                self.heard_ns = time.monotonic_ns()
                self._reads.append((count, self.heard_ns))
                count += len(whole)
                yield from (f"{line[:_LONGEST]}\n" for line in whole)
            elif over:
                self.is_cut = bool(rest)
                return
            else:
                time.sleep(POLL_S)

    def came_ns(self, line: int) -> int:
        """When a line was read, on the monotonic clock: at most `POLL_S` after it was whole."""
        return next((at_ns for first, at_ns in reversed(self._reads) if first <= line), self._reads[0][1])

    def _read(self) -> bytes:
        try:
            if not self._path.is_file():  # a pipe would hold us up for ever
                return b""
            with self._path.open("rb") as file:
                if file.seek(0, io.SEEK_END) < self._at:  # begun again
                    self._at = 0
                file.seek(self._at)
                data = file.read(_MOST_BYTES)
        except OSError:
            return b""
        self._at += len(data)
        return data


TOLERANCE_NS = 250_000_000
"""A line may come so much later than the steps before it add up to: the poll, and the last digits of its times."""


def placed(rows: Iterable[tuple[Marks, int]]) -> Iterator[Marks]:
    """Each row as long as the log says, and where its line came. Rows with when their line was read, in ns from the
    start of the run.

    Rows follow each other. Where the next line comes later than its step takes, a row "between" stands for what lies
    before it, an evaluation or a save. Of lines that came together the last one tells when; the first to come alone
    places the others, and those before it, or from before the start, are left out. A row is given when the next comes.
    """
    end_ns: int | None = None
    has_begun = False
    for marks, came_ns, is_last in _with_last(rows):
        length_ns = marks.end_ns - marks.begin_ns
        if end_ns is None:
            if not is_last:
                continue
            end_ns = came_ns - length_ns
        elif is_last and (gap_ns := came_ns - length_ns - end_ns) > TOLERANCE_NS:
            if has_begun:
                yield Marks(end_ns, end_ns + gap_ns, samples=0, tokens=0, kind="between")
            end_ns += gap_ns
        begin_ns, end_ns = end_ns, end_ns + length_ns
        if has_begun := begin_ns >= 0:
            yield replace(marks, begin_ns=begin_ns, end_ns=end_ns)


def _with_last(rows: Iterable[tuple[Marks, int]]) -> Iterator[tuple[Marks, int, bool]]:
    """Whether a row is the last of those whose lines came together."""
    before: tuple[Marks, int] | None = None
    for row in rows:
        if before is not None:
            yield (*before, before[1] != row[1])
        before = row
    if before is not None:
        yield (*before, True)


# The user's own command, which a run starts: without a shell, in a process group of its own, gone when the run is.

_MOST_LETTERS = 300


class Command:
    """Started when it is made. Raises ExecutorFailed (TL303) where it cannot be."""

    def __init__(self, words: tuple[str, ...], output: Path) -> None:
        self.words, self._output = words, output
        # Python holds back what it prints to a file; each line is wanted when it is printed.
        self._process = Process(words, {"PYTHONUNBUFFERED": "1", **os.environ}, output)

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._process.pid,)

    def is_over(self) -> bool:
        return self._process.exit_code() is not None

    def refuse_failure(self) -> None:
        """Raises ExecutorFailed (TL302) where it has ended, and not well."""
        if (code := self._process.exit_code()) in (0, None):
            return
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        raise ExecutorFailed(
            f"{self.words[0]} {how}: {telling_line(read_log(self._output))}; the rows so far are kept, and its output "
            f"is in {self._output}",
            code="TL302",
        )

    def close(self) -> None:
        """End it and all it started."""
        self._process.stop()


def command_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """`executor.options.command`, () where there is none. Raises BadInput (TL207) for what is no list of words, for a
    program that is not there, and for a wait that its end takes the place of."""
    asked = options.get("command", ())
    words = tuple(asked) if isinstance(asked, list | tuple) else ("",)
    if not words:
        return ()
    if not all(isinstance(word, str) and "\0" not in word for word in words) or not words[0]:
        raise BadInput(
            'executor.options.command is a list of words, as ["torchrun", "train.py"]: no shell reads it', code="TL207"
        )
    if options.get("follow_s"):
        raise BadInput(
            "executor.options.follow_s means nothing to a command, whose end ends the log; leave it out", code="TL207"
        )
    if shutil.which(words[0]) is None:
        raise BadInput(f"executor.options.command: {words[0]} is not to be found here; give its path", code="TL207")
    return words


def in_words(words: tuple[str, ...]) -> str:
    """A command as one would type it, cut where it is long."""
    typed = shlex.join(words)
    return typed if len(typed) <= _MOST_LETTERS else f"{typed[:_MOST_LETTERS]}…"


def facts_of(pids: tuple[int, ...]) -> dict[str, Fact]:
    """GPUs on which the driver sees these processes or their children, and on how many nodes they say they are. No
    fact on a GPU where there is none here."""
    ours = [pid for first in pids for pid in tree(first)]
    nodes = max((_nodes(pid) for pid in ours), default=1)
    facts = {"interconnect.node_count": observed(nodes, "WORLD_SIZE and LOCAL_WORLD_SIZE")} if nodes > 1 else {}
    gpus, _ = open_gpus()
    if used := [gpu.uuid for gpu in gpus if set(gpu.process_ids() or ()).intersection(ours)]:
        return facts | {"accelerator.uuid": observed(used, "NVML: the processes of the command compute on them")}
    if gpus:
        facts["accelerator.uuid"] = unknown("the driver sees none of the command's processes on a GPU")
    return facts


def _nodes(pid: int) -> int:
    try:
        own = psutil.Process(pid).environ()
        return max(1, int(own["WORLD_SIZE"]) // int(own["LOCAL_WORLD_SIZE"]))
    except (psutil.Error, KeyError, ValueError, ZeroDivisionError):
        return 1
