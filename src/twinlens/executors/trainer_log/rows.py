"""Rows of a log: one for each line that says how long a step took, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twinlens.executors.trainer_log.step_record import ReadLog, StepRecord
from twinlens.record.step import Marks

STARTING = "starting"
"""The tag of the first line of a process: its time holds what is done once, at the start."""
_LOSSES = ("lm loss", "loss", "reduced_train_loss")


@dataclass(frozen=True, slots=True)
class Rows:
    """Marks in the order of the log, and counts of what they cannot say. `steps_each`: optimizer steps that a line
    stands for, at most. `lines`: those that made a row. `others`: lines of other processes, or on a step said before.
    `starts`: processes that began. `resolution_s`: the last digit of a step's time."""

    marks: tuple[Marks, ...]
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


def rows_of(log: ReadLog, samples: int, tokens_each: int) -> Rows:
    """`samples`: of a step where no line says it; `tokens_each`: tokens of a sample. Needs one record at least."""
    of_one = [record for record in log.records if record.rank == log.records[0].rank]
    marks: list[Marks] = []
    at_ns, steps_each, starts, used, newest = 0, 1, 0, 0, -1
    resolution_s = 0.0
    phases: set[str] = set()
    for before, record in _with_before(of_one):
        used += 1
        starts += before is None
        steps_each = max(steps_each, record.number - before.number if before else 1)
        if record.step_s is None:
            newest = max(newest, record.number)
            continue
        length_ns = max(1, round(record.step_s * 1e9))
        spent: dict[str, Any] = {} if before is None else _phases_ns(record, length_ns)
        counted = _samples(record, before) or samples
        marks.append(
            Marks(
                at_ns,
                at_ns + length_ns,
                samples=counted,
                tokens=_tokens(record, before) or counted * tokens_each,
                loss=next((record.losses[name] for name in _LOSSES if name in record.losses), None),
                tag=_tag(record, before, newest),
                **spent,
            )
        )
        at_ns += length_ns
        newest = max(newest, record.number)
        phases |= spent.keys()
        resolution_s = record.resolution_s if not resolution_s else min(resolution_s, record.resolution_s)
    skipped, nan = sum(record.skipped for record in of_one), sum(record.nan for record in of_one)
    ends = of_one[0].number, newest
    others = len(log.records) - used
    return Rows(
        tuple(marks), steps_each, *ends, others, starts, skipped, nan, resolution_s, tuple(sorted(phases)), _of_gpu(log)
    )


def _of_gpu(log: ReadLog) -> dict[str, float]:
    said: dict[str, list[float]] = {name: [value] for name, value in log.of_gpu.items()}
    for before, record in _with_before([each for each in log.records if each.rank == log.records[0].rank]):
        for name, value in record.of_gpu.items():
            if before is not None or name.endswith("_bytes"):
                said.setdefault(name, []).append(value)
    return {name: max(each) if name.endswith("_bytes") else sum(each) / len(each) for name, each in said.items()}


def _with_before(records: list[StepRecord]) -> Iterator[tuple[StepRecord | None, StepRecord]]:
    """Each with the line before it of the same process; None at a start. A step said twice is told once."""
    before: StepRecord | None = None
    for record in records:
        if before is not None and record.number == before.number:
            continue
        yield (before if before is not None and record.number > before.number else None), record
        before = record


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
