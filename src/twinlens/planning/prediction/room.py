"""Room of a question: sequences whose cache fits beside the weights, by the memory of `plan fit`."""

from __future__ import annotations

import math

from twinlens.planning.fit.placement import usable
from twinlens.planning.fit.runtime import runtime_of
from twinlens.planning.fit.serving import Serving, most_sequences
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.prediction.stored import held_format
from twinlens.planning.subject import Subject
from twinlens.theory.parameter import parameters


def plan_of(question: ServingQuestion) -> Serving:
    """One user of a question as `plan fit` asks about it."""
    subject = question.subject or Subject(question.model, parameters(question.shape).total, question.shape)
    return Serving(
        subject,
        held_format(question.precision, subject),
        kv_element_bytes=question.kept.kv_bytes,
        context=math.ceil(question.prompt + question.answer),
        runtime=runtime_of(question.engine),
        pipeline=question.pipeline,
        groups=question.data,
    )


def room(question: ServingQuestion) -> int:
    """Whole sequences that one copy has room for at a time, over all its groups; 0 where not even one fits."""
    plan, device = plan_of(question), question.device
    bytes_each = usable(device, plan.runtime.memory_share).number
    return int(most_sequences(plan, bytes_each, device.known_memory_bytes, question.tensor))
