"""torchtitan's structured log: one JSON object a line, of which the end of the span `step` has its milliseconds.

Its other spans are host times: nothing waits for the device at their ends, so they are phases of no step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from twinlens.executors.trainer_log.line import plain, seconds, whole
from twinlens.executors.trainer_log.step_record import Said, StepRecord
from twinlens.system.document import json_of

_END = "step_end"


def read(lines: Iterable[str]) -> Iterator[Said]:
    """Records of all ends of steps; losses and samples are in another file."""
    for place, line in enumerate(lines):
        if f'"{_END}"' in line:
            yield _record(line, place)


def _record(line: str, place: int) -> StepRecord | None:
    try:
        data: Any = json_of(plain(line)[1])
    except ValueError:
        return None
    if not isinstance(data, dict) or data.get("log_type_name") != _END:
        return None
    number, value = whole(str(data.get("step"))), data.get("value")
    step_s, resolution_s = seconds(repr(value) if isinstance(value, int | float) else None, 1e-3)
    if number is None or step_s is None or isinstance(value, bool):
        return None
    return StepRecord(number, step_s, resolution_s, rank=str(data.get("rank", ""))[:20], line=place)
