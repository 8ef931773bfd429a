"""Prompts that a model folder is calibrated on: passages of the workload's own file, or token ids as engines get."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from twinlens.executors.in_process.inputs import (
    LONGEST,
    OWN_STREAM,
    PROMPTS,
    calibration_prompts,
    prompts_said,
)
from twinlens.schedule.content.prompt import words_of
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.prompt import PromptFile
from twinlens.spec.workload.workload import InferenceWorkload


@dataclass(frozen=True, slots=True)
class Calibration:
    """`texts` or `ids`: one entry a prompt, of `length` tokens (of a text: at most). `said`: one phrase for the record,
    with their number, length, origin and sha256."""

    length: int
    said: str
    texts: tuple[str, ...] = ()
    ids: tuple[tuple[int, ...], ...] = ()


def calibration_of(spec: RunSpec) -> Calibration:
    """The same for every repeat, and of no run. Real text where the workload names a file of prompts: its tokens are
    made by the model's own tokenizer. Raises BadInput (TL209, TL213) for data that cannot be read."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    length = length_of(workload)
    if isinstance(workload.prompts, PromptFile):
        words = words_of(workload.prompts)
        texts = tuple(words.cut((OWN_STREAM, place), length) for place in range(PROMPTS))
        digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
        origin = f"of at most {length} tokens cut from the workload's file of prompts"
        return Calibration(length, f"{PROMPTS} prompts {origin}, seed {OWN_STREAM}, sha256 {digest}", texts=texts)
    ids = tuple(tuple(row) for row in calibration_prompts(spec).tolist())
    return Calibration(length, prompts_said(spec), ids=ids)


def length_of(workload: InferenceWorkload) -> int:
    """Tokens of a calibration prompt."""
    return min(LONGEST, workload.input_tokens.max)


def decided_by(spec: RunSpec) -> list[Any]:
    """What of a spec decides the quantised folder of its model, without making its prompts."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    words = (workload.data.model_dump(mode="json"), workload.prompts.model_dump(mode="json"))
    return [spec.point.precision, *words, length_of(workload)]
