"""Validity: the run is not ranked, so its figures, and a verdict from them, are uncertain by more than they show."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence
from twinlens.record.finding import Finding


def run_not_ranked(seen: Evidence) -> Iterable[Finding]:
    """Where the run was not steady, or something disqualifies it."""
    if not seen.ranked:
        grave = tuple(each for each in seen.findings if each.severity == "disqualifies")
        yield Finding("diagnosis-of-unranked", "warns", "", {"label": seen.label}, because=grave)
