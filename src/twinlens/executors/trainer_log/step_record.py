"""A record of one line on a step, and of a whole log: what they say, and nothing where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field


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
