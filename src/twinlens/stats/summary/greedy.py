"""Agreement of greedy answers between points of a study: the fidelity of a system of which only text is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.record.sections import GreedyAnswers, Response
from twinlens.spec.precision import BITS, precision
from twinlens.stats.compliance.answer import compared
from twinlens.stats.estimator.repeats import mean_of_shares
from twinlens.units import RATIO

REFERENCE = "it is the reference: the answers of other points are compared with its own"


def greedy_agreement(reference: GreedyAnswers, runs: Sequence[GreedyAnswers], of: str) -> Estimate:
    """The share of the reference's tokens before the first difference, mean over prompts; each prompt over its runs.

    Greedy texts part for good at the first difference, so what follows it says nothing. `of`: names the reference.
    """
    shares = [
        np.mean([_alike(reference, run, place) for run in runs])
        for place, answer in enumerate(reference.answers)
        if answer is not None and answer.tokens and all(run.answers[place] is not None for run in runs)
    ]
    if not shares:
        return Estimate.absent(RATIO, "no prompt was answered by both")
    suffix = f", tokens before the first difference from {of} / tokens of its greedy answer, per prompt"
    over_prompts = mean_of_shares(shares, method=suffix)
    return replace(over_prompts, runs=1)  # an interval over prompts says nothing of other runs


def _alike(reference: GreedyAnswers, run: GreedyAnswers, place: int) -> float:
    first, second = (
        Response(each.text, "", each.tokens) for answers in (reference, run) if (each := answers.answers[place])
    )
    return compared(first, second).alike_tokens / first.tokens


def width(name: str) -> int:
    """Bits of a weight in a precision by name; 0 where nobody here knows them."""
    try:
        return BITS.get(precision(name).classes("inference").get("weights", ""), 0)
    except BadInput:
        return 0
