"""Rows of a log: one for each line that says how long a step took, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinlens.record.step import Marks


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One line on one step, or on all steps since the line before; what it does not say is None or empty.

    `number`: the optimizer step after which it was printed. `step_s`: seconds of a step, the mean where the line is
    about several. `resolution_s`: the last digit of that as printed, in seconds. `samples`: of one step. `consumed`:
    samples since the training began; `consumed_tokens` likewise. `losses`: by the log's own names. `phases_s`: seconds
    of a step, under the names of `Marks`. `skipped`, `nan`: iterations since the line before that trained nothing, or
    whose loss was no number. `of_gpu`: what it says of one GPU: `allocated_bytes` and `reserved_bytes` (peaks),
    `energy_j` of a step, `power_w`. `rank`: the prefix of the process that printed it, "" where there is none.
    `line`: its place in the log, from 0.
    """

    number: int
    step_s: float | None = None
    resolution_s: float = 0.0
    samples: int | None = None
    consumed: int | None = None
    consumed_tokens: int | None = None
    losses: Mapping[str, float] = field(default_factory=dict)
    phases_s: Mapping[str, float] = field(default_factory=dict)
    skipped: int = 0
    nan: int = 0
    of_gpu: Mapping[str, float] = field(default_factory=dict)
    rank: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class ReadLog:
    """All records in the order of their lines. `unread`: lines that begin as a step's does and cannot be read.
    `of_gpu`: the largest of any GPU, where lines of their own say it."""

    records: tuple[StepRecord, ...]
    unread: int = 0
    of_gpu: Mapping[str, float] = field(default_factory=dict)


Said = StepRecord | Mapping[str, float] | None
"""A record, the peaks of a GPU on a line of their own, or a line that begins as a step's does and cannot be read."""
Reader = Callable[[Iterable[str]], Iterator[Said]]
"""Reads the lines of one format, and gives each record once its lines are there; never raises for what they hold."""


def collected(said: Iterable[Said]) -> ReadLog:
    """All that a log says, read to its end."""
    records, peaks, unread = list[StepRecord](), dict[str, float](), 0
    for each in said:
        if isinstance(each, StepRecord):
            records.append(each)
        elif each is None:
            unread += 1
        else:
            peaks = larger(peaks, each)
    return ReadLog(tuple(records), unread, peaks)


def larger(peaks: Mapping[str, float], found: Mapping[str, float]) -> dict[str, float]:
    """The larger of each peak."""
    return dict(peaks) | {name: max(value, peaks.get(name, 0.0)) for name, value in found.items()}


STARTING = "starting"
"""The tag of the first line of a process: its time holds what is done once, at the start."""
_LOSSES = ("lm loss", "loss", "reduced_train_loss")


@dataclass(frozen=True, slots=True)
class Rows:
    """Marks in the order of the log, and counts of what they cannot say. `steps_each`: optimizer steps that a line
    stands for, at most. `lines`: those that made a row. `others`: lines of other processes, or on a step said before.
    `starts`: processes that began. `resolution_s`: the last digit of a step's time."""

    marks: tuple[Marks, ...]
    lines: int
    steps_each: int
    first: int
    last: int
    others: int
    starts: int
    skipped: int
    nan: int
    resolution_s: float
    phases: tuple[str, ...]
    of_gpu: Mapping[str, float]
    """Of one GPU: the largest peak of memory, and the mean energy and power of lines after a start."""


class Reading:
    """Records into rows, one after another. `samples`: of a step where no line says it; `tokens_each`: tokens of a
    sample."""

    def __init__(self, samples: int, tokens_each: int) -> None:
        self._samples_else, self._tokens_each = samples, tokens_each
        self._before: StepRecord | None = None
        self._newest, self._first, self._at_ns = -1, -1, 0
        self._steps_each, self._starts, self._others, self._lines = 1, 0, 0, 0
        self._skipped, self._nan, self._resolution_s = 0, 0, 0.0
        self._phases, self._peaks = set[str](), dict[str, float]()
        self._rates = dict[str, tuple[float, int]]()

    def peaks(self, found: Mapping[str, float]) -> None:
        """Peaks of memory on a line of their own."""
        self._peaks = larger(self._peaks, found)

    def row(self, record: StepRecord) -> Marks | None:
        """The row of a record; None where it says no step time, or is of another process, or said before."""
        last = self._before
        is_ours = last is None or record.rank == last.rank
        self._skipped += record.skipped * is_ours
        self._nan += record.nan * is_ours
        if last is not None and (not is_ours or record.number == last.number):
            self._others += 1
            return None
        before = last if last is not None and record.number > last.number else None
        self._before = record
        self._first = record.number if last is None else self._first
        self._starts += before is None
        self._steps_each = max(self._steps_each, record.number - before.number if before else 1)
        self._of_gpu(record, is_start=before is None)
        marks = self._marks(record, before)
        self._newest = max(self._newest, record.number)
        return marks

    def rows(self, marks: Sequence[Marks] = ()) -> Rows:
        """What all records so far come to."""
        means = {name: total / count for name, (total, count) in self._rates.items()}
        return Rows(
            tuple(marks), self._lines, self._steps_each, self._first, self._newest, self._others, self._starts,
            self._skipped, self._nan, self._resolution_s, tuple(sorted(self._phases)), self._peaks | means,
        )  # fmt: skip

    def _of_gpu(self, record: StepRecord, *, is_start: bool) -> None:
        self.peaks({name: value for name, value in record.of_gpu.items() if name.endswith("_bytes")})
        for name, value in record.of_gpu.items():
            if not is_start and not name.endswith("_bytes"):
                total, count = self._rates.get(name, (0.0, 0))
                self._rates[name] = total + value, count + 1

    def _marks(self, record: StepRecord, before: StepRecord | None) -> Marks | None:
        if record.step_s is None:
            return None
        length_ns = max(1, round(record.step_s * 1e9))
        spent: dict[str, Any] = {} if before is None else _phases_ns(record, length_ns)
        counted = _samples(record, before) or self._samples_else
        begin_ns, self._at_ns = self._at_ns, self._at_ns + length_ns
        self._lines += 1
        self._phases |= spent.keys()
        finest = self._resolution_s or record.resolution_s
        self._resolution_s = min(finest, record.resolution_s)
        return Marks(
            begin_ns,
            self._at_ns,
            samples=counted,
            tokens=_tokens(record, before) or counted * self._tokens_each,
            loss=next((record.losses[name] for name in _LOSSES if name in record.losses), None),
            tag=_tag(record, before, self._newest),
            **spent,
        )


def rows_of(log: ReadLog, samples: int, tokens_each: int) -> Rows:
    """All rows of a log, as `Reading` gives them. Needs one record at least."""
    reading = Reading(samples, tokens_each)
    reading.peaks(log.of_gpu)
    marks = [row for record in log.records if (row := reading.row(record)) is not None]
    return reading.rows(marks)


def _tag(record: StepRecord, before: StepRecord | None, newest: int) -> str | None:
    """Of a line for several steps nothing says which of them was skipped."""
    if before is None:
        return STARTING
    if record.number <= newest:
        return "repeat"
    return "skipped" if record.skipped and record.number == before.number + 1 else None


def _samples(record: StepRecord, before: StepRecord | None) -> int | None:
    """Samples of one step: what was consumed since the line before, else the batch that the line names."""
    if before is not None and record.consumed is not None and before.consumed is not None:
        spent, steps = record.consumed - before.consumed, record.number - before.number
        if spent > 0:
            return max(1, round(spent / steps))
    return record.samples


def _tokens(record: StepRecord, before: StepRecord | None) -> int | None:
    if before is None or record.consumed_tokens is None or before.consumed_tokens is None:
        return None
    return max(0, round((record.consumed_tokens - before.consumed_tokens) / (record.number - before.number)))


def _phases_ns(record: StepRecord, length_ns: int) -> dict[str, int]:
    """None of them where they are longer than the step: those of the slowest ranks are of several ranks."""
    spent = {f"{name}_ns": round(value * 1e9) for name, value in record.phases_s.items() if value * 1e9 <= length_ns}
    whole = len(spent) == len(record.phases_s) and sum(spent.values()) <= length_ns
    return spent if whole else {}
