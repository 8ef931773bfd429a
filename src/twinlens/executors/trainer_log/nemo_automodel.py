"""NeMo Automodel's line of a step, written after its recipes of 2025 and 2026. It says no step time, so that is the
time between two lines; its memory is the most that torch's allocator gave out on the GPU of rank 0."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from twinlens.executors.trainer_log.step_record import Said
from twinlens.executors.trainer_log.torchtitan import Line, between

_LINE = Line(
    step=re.compile(r"(?:^|(?<!\" )\| )step (\d+) \| epoch \d+ "),
    loss=re.compile(r"\| loss (\S+)"),
    memory=("allocated_bytes", re.compile(r"\| mem ([\d.]+) GiB")),
)


def read(lines: Iterable[str]) -> Iterator[Said]:
    """Records of all lines of steps but those of a validation; the first of each process has no time."""
    return between(lines, _LINE)
