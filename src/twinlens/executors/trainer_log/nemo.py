"""NeMo 2's line of a step (Lightning's progress printer). Its steps count from 0; `val_loss` stays on every later line
once there was one, so it is left out. Megatron-Bridge prints Megatron's line instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from twinlens.executors.trainer_log.line import cells, loss, plain, real, seconds, whole
from twinlens.executors.trainer_log.step_record import Said, StepRecord

_ITERATION = re.compile(r"\bTraining epoch \d+, iteration (\d+)\s*/")


def read(lines: Iterable[str]) -> Iterator[Said]:
    """Records of all lines of steps, numbered from 1."""
    for place, line in enumerate(lines):
        rank, text = plain(line)
        if "|" in text and (found := _ITERATION.search(text.partition("|")[0])) is not None:
            yield _record(whole(found[1]), rank, text, place)


def _record(iteration: int | None, rank: str, text: str, place: int) -> StepRecord | None:
    found = cells(text)
    step_s, resolution_s = seconds(found.get("train_step_timing in s"), 1.0)
    number = whole(found["global_step"]) if "global_step" in found else iteration
    if number is None or step_s is None:
        return None
    said, reserved = loss(found.get("reduced_train_loss", "")), real(found.get("max_memory_reserved"))
    return StepRecord(
        number + 1,
        step_s,
        resolution_s,
        samples=whole(found.get("global_batch_size")),
        consumed=whole(found.get("consumed_samples")),
        losses={} if said is None else {"reduced_train_loss": said},
        of_gpu={} if reserved is None else {"reserved_bytes": reserved},
        rank=rank,
        line=place,
    )
