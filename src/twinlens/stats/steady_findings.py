"""What the test for steadiness found, as data. Each is a pure function of a run's verdict."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.record.finding import Finding
from twinlens.stats.group import Verdict


def disturbed(verdict: Verdict) -> Iterable[Finding]:
    """Stretches of the window that left its level: in every figure, and beyond what passes not ranked."""
    found = verdict.disturbed
    if found.stretches:
        worst = found.largest
        numbers = {
            "count": len(found.stretches),
            "share": found.share,
            "effect": found.effect,
            "factor": worst.factor,
            "begin_s": worst.begin_s,
            "end_s": worst.end_s,
        }
        yield Finding("disturbed", "disqualifies" if found.heavy else "warns", "", numbers)
