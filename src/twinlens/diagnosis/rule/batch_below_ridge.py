"""Decode reads every weight for few sequences: a larger batch makes more tokens of the same bytes."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence, Rule
from twinlens.diagnosis.phase import place_of
from twinlens.record.finding import Finding


def batch_below_ridge(seen: Evidence) -> Iterable[Finding]:
    """Where the intensity of decode is below half of the ridge. At most: twice the tokens for twice the batch."""
    for phase in seen.phases:
        place = place_of(phase, seen.ceilings) if phase.name == "decode" else None
        if place is None or seen.batch is None or place.intensity_high > place.ridge / 2:
            continue
        numbers = {"batch": seen.batch, "intensity": place.intensity_high, "ridge": place.ridge, "at_most": 2.0}
        yield Finding("batch-below-ridge", "notes", "decode", numbers)


RULE = Rule(
    code="batch-below-ridge",
    find=batch_below_ridge,
    says=("Decode does so little arithmetic for each byte that a larger batch makes more tokens of the same bytes."),
    why=(
        "A decode step reads every weight once, for one sequence as for sixty. Until the ridge is near, each "
        "further sequence costs only its own KV cache, so twice the batch gives up to twice the tokens per "
        "second."
    ),
    evidence="FLOP per byte of a decode step are below half of the measured ridge point.",
    lies=(
        "The KV cache grows with the batch: at long contexts it is most of the bytes, and the gain is far below two."
    ),
    remedy="Raise the batch until latency or memory forbids it.",
    falsifier=(
        "Measure at twice the batch. More than twice the tokens per second, or a time per token that doubles,"
        " proves this wrong."
    ),
    sources=(
        'Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), '
        "2009, doi:10.1145/1498765.1498785",
        'Pope et al., "Efficiently scaling transformer inference", 2022, arXiv:2211.05102',
    ),
    see=("ridge-point", "intensity", "tpot_s"),
    laws=("ridge", "intensity"),
)
