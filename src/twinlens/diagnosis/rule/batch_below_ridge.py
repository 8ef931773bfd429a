"""Decode reads every weight for few sequences: a larger batch makes more tokens of the same bytes."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence
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
