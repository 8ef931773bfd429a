"""torchtitan's line on the console. It says no step time, so that is the time between two lines, which also holds
evaluations and checkpoints between them; its tps is of one device, and no count."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from twinlens.executors.trainer_log.line import loss, plain, whole
from twinlens.executors.trainer_log.step_record import ReadLog, StepRecord

_STEP = re.compile(r"(?<!validate )\bstep:\s*(\d+)\b")
_LOSS = re.compile(r"\bloss:\s*(\S+)")
_WHEN = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[,.](\d{1,6})")
_MOST_S = 1e5


def read(lines: Iterable[str]) -> ReadLog:
    """Records of all lines of steps; the first of each process has no time, as nothing says when it began."""
    records: list[StepRecord] = []
    before: dict[str, tuple[int, int]] = {}
    unread = 0
    for line in lines:
        rank, text = plain(line)
        step, said = _STEP.search(text), _LOSS.search(text)
        if step is None or said is None:
            continue
        number, value, when = whole(step[1]), loss(said[1]), _when(text)
        if number is None or when is None or value is None:
            unread += 1
            continue
        at_us, digit_s = when
        earlier, then_us = before.get(rank, (number, at_us))
        steps, spent_s = number - earlier, (at_us - then_us) / 1e6
        known = steps > 0 and 0 < spent_s / steps < _MOST_S
        step_s, resolution_s = (spent_s / steps, digit_s / steps) if known else (None, 0.0)
        records.append(StepRecord(number, step_s, resolution_s, losses={"loss": value}, rank=rank))
        before[rank] = (number, at_us)
    return ReadLog(tuple(records), unread)


def _when(text: str) -> tuple[int, float] | None:
    """Microseconds of the log's own clock, and its last digit in seconds."""
    if (found := _WHEN.search(text)) is None:
        return None
    try:
        moment = datetime.strptime(f"{found[1]} {found[2]}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp()) * 10**6 + int(found[3].ljust(6, "0")), 10.0 ** -len(found[3])
