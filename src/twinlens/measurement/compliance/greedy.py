"""The same prompts at every point of a study, answered greedily: what a served precision changes in its answers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np

from twinlens.executors.protocol import AuditableClient
from twinlens.measurement.compliance.alone import answers_alone
from twinlens.record.sections import GreedyAnswer, GreedyAnswers
from twinlens.schedule.content.draw import single_requests
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload

PROMPTS = 8
MOST_TOKENS = 64
_MOST_CHARACTERS = 4096
_SALT = 0x9E3D


def greedy_answers(client: AuditableClient, spec: RunSpec, patience_s: float) -> GreedyAnswers | None:
    """Ask them one at a time, so that no batch decides a near tie; None for images, which have no text.

    Prompts depend on the workload and the study's seed alone: not on the point, the repeat or the server.
    """
    workload, seed = spec.workload, spec.protocol.seed
    assert isinstance(workload, InferenceWorkload)
    drawn = single_requests(workload, np.zeros(PROMPTS, np.int64), seed=seed, prompt_seed=seed * 1000 + _SALT)
    asked = [replace(each, output_tokens=min(each.output_tokens, MOST_TOKENS)) for each in drawn]
    if not any(each.output_tokens for each in asked):
        return None
    answered = {each.scheduled.number: each.response for each in answers_alone(client, asked, patience_s)}
    answers = [
        GreedyAnswer(response.text[:_MOST_CHARACTERS], response.tokens)
        if (response := answered.get(each.number)) is not None
        else None
        for each in asked
    ]
    identity = [workload.model_dump(mode="json"), seed, PROMPTS, MOST_TOKENS]
    prompts = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    return GreedyAnswers(prompts, tuple(answers))
