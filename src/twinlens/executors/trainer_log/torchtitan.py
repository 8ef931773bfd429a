"""torchtitan's line on the console. It says no step time, so that is the time between two lines, which also holds
evaluations and checkpoints between them; its tps is of one device, and no count, and its memory the most that torch's
allocator reserved on one GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from twinlens.executors.trainer_log.line import loss, plain, real, whole
from twinlens.executors.trainer_log.step_record import Said, StepRecord

_WHEN = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[,.](\d{1,6}))?")
_MOST_S = 1e5


@dataclass(frozen=True, slots=True)
class Line:
    """Patterns of a line on a step that says no step time. `memory`: the peak it says of one GPU, and its GiB."""

    step: re.Pattern[str]
    loss: re.Pattern[str]
    memory: tuple[str, re.Pattern[str]]


_LINE = Line(
    step=re.compile(r"(?<!validate )\bstep:\s*(\d+)\b"),
    loss=re.compile(r"\bloss:\s*(\S+)"),
    memory=("reserved_bytes", re.compile(r"\bmemory:\s*([\d.]+)GiB")),
)


def read(lines: Iterable[str]) -> Iterator[Said]:
    """Records of all lines of steps; the first of each process has no time, as nothing says when it began."""
    return between(lines, _LINE)


def between(lines: Iterable[str], line_of: Line) -> Iterator[Said]:
    """Records whose time is that between two lines of one process."""
    before: dict[str, tuple[int, int]] = {}
    for place, line in enumerate(lines):
        rank, text = plain(line)
        step, said = line_of.step.search(text), line_of.loss.search(text)
        if step is None or said is None:
            continue
        number, value, when = whole(step[1]), loss(said[1]), _when(text)
        if number is None or when is None or value is None:
            yield None
            continue
        at_us, digit_s = when
        earlier, then_us = before.get(rank, (number, at_us))
        steps, spent_s = number - earlier, (at_us - then_us) / 1e6
        known = steps > 0 and 0 < spent_s / steps < _MOST_S
        step_s, resolution_s = (spent_s / steps, digit_s / steps) if known else (None, 0.0)
        before[rank] = (number, at_us)
        yield StepRecord(
            number, step_s, resolution_s, losses={"loss": value}, of_gpu=_memory(text, line_of), rank=rank, line=place
        )


def _memory(text: str, line_of: Line) -> dict[str, float]:
    name, pattern = line_of.memory
    value = real(found[1]) if (found := pattern.search(text)) is not None else None
    return {} if value is None else {name: value * 2**30}


def _when(text: str) -> tuple[int, float] | None:
    """Microseconds of the log's own clock, and its last digit in seconds."""
    if (found := _WHEN.search(text)) is None:
        return None
    try:
        moment = datetime.strptime(f"{found[1]} {found[2]}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    digits = found[3] or ""
    return int(moment.timestamp()) * 10**6 + int(digits.ljust(6, "0")), 10.0 ** -len(digits)
