"""Digests of what a run computed: on a sound device two turns of one spec say the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinlens.acceptance.driving.products import digest_of
from twinlens.executors.registry import capabilities
from twinlens.record.codec import encode
from twinlens.record.run import Run
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload

FIRST_STEPS = (1, 8, 64, 512)
_ORDERED = ("torch", "fake")
"""Executors whose steps, on a processor, add in the same order in every process: as many threads, the same libraries.
On a GPU a backward pass adds in an order that varies, and between ranks an exchange may: there the loss of the first
step, of a forward pass alone, is all that repeats."""


def steps_compared(spec: RunSpec, *, on_processor: bool) -> tuple[int, ...]:
    """Of how many first steps the losses repeat bit by bit."""
    return FIRST_STEPS if on_processor and spec.executor.kind in _ORDERED else FIRST_STEPS[:1]


def excluded(spec: RunSpec, *, on_processor: bool) -> str:
    """What of this spec is not compared, and why; "" where all is."""
    if isinstance(spec.workload, TrainingWorkload) and len(steps_compared(spec, on_processor=on_processor)) == 1:
        return "losses after the first step: a backward pass on a GPU, and an exchange, add in an order that varies"
    if isinstance(spec.workload, InferenceWorkload) and capabilities(spec.executor.kind).runs != "here":
        return "" if spec.protocol.guards else "answers: the spec does not ask for them (protocol.guards)"
    return ""


def loss_digests(run: Run, *, on_processor: bool) -> Iterator[tuple[str, int, str]]:
    """(check, end of its last step in ns, digest) of the losses of the first steps, as far as the run has so many."""
    if run.lens != "training":
        return
    steps = run.steps.where(run.steps.kind == "step")
    loss = np.asarray(steps.loss, dtype=np.float64)
    if np.isnan(loss).any():
        return
    for count in steps_compared(run.spec, on_processor=on_processor):
        if len(steps) >= count:
            name = "loss of the first step" if count == 1 else f"loss of steps 1 to {count}"
            yield name, int(steps.end_ns[count - 1]), digest_of(loss[:count].tobytes())


def answer_digests(run: Run) -> Iterator[tuple[str, str]]:
    """(check, digest) of greedy answers to fixed prompts, and of their likelihood where fp32 was beside it."""
    if (greedy := run.sections.greedy) is not None and all(each is not None for each in greedy.answers):
        yield "greedy answers", digest_of(repr(encode(greedy)).encode())
    if run.facts is not None and run.facts.fidelity and capabilities(run.spec.executor.kind).runs == "here":
        yield "likelihood of fixed prompts", digest_of(repr(encode(run.facts.fidelity)).encode())
