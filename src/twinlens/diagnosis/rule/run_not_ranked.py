"""Validity: the run is not valid, or provisional, so its figures, and a verdict from them, are less certain."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence, Rule
from twinlens.record.finding import Finding


def run_not_ranked(seen: Evidence) -> Iterable[Finding]:
    """Where the run was not shown to be steady, or something disqualifies it."""
    if not seen.ranked:
        grave = tuple(each for each in seen.findings if each.severity == "disqualifies")
        yield Finding("diagnosis-of-unranked", "warns", "", {"label": seen.label}, because=grave)


RULE = Rule(
    code="diagnosis-of-unranked",
    find=run_not_ranked,
    says="The run that is diagnosed is not valid, or provisional, so its figures are less certain than they look.",
    why=(
        "The verdict is of what was measured, and the next run may come to another. Its confidence is one grade lower."
    ),
    evidence="The run was not steady, or could not be shown to be, or one of its findings disqualifies it.",
    lies="A run that misses only its SLO is steady, and its parts of time are as good as those of any other.",
    remedy="Measure longer, or on a quieter machine, and diagnose that run.",
    falsifier=(
        "A valid run of the same spec comes to the same verdict with the same shares: then this warning cost nothing."
    ),
    sources=(
        'Hoefler and Belli, "Scientific benchmarking of parallel computing systems", SC 2015, '
        "doi:10.1145/2807591.2807644",
    ),
    see=("valid", "provisional", "diagnosis"),
)
