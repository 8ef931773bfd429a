"""Validity: time that belongs to no part. Above a tenth of it, no verdict on the rest holds."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.partition import UNATTRIBUTED
from twinlens.diagnosis.verdict import MOST_UNATTRIBUTED
from twinlens.record.finding import Finding


def time_unattributed(seen: Evidence) -> Iterable[Finding]:
    """Where more than a tenth of the time is in no part, or the parts do not fit."""
    share = seen.partition.share(UNATTRIBUTED)
    if seen.partition.reason is not None or share > MOST_UNATTRIBUTED:
        numbers = {"share": share, "reason": seen.partition.reason, "served": seen.kind == "served"}
        yield Finding("time-unattributed", "warns", seen.partition.unit, numbers)
