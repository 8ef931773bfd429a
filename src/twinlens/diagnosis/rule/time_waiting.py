"""Time in which nothing is computed: input, communication, the host, a queue. Its headroom is the whole part."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence
from twinlens.record.finding import Finding

_LEAST = 0.05
_PARTS = ("data", "communicate", "between-steps", "before-sending", "held", "queue", "transport", "after-last-token")


def time_waiting(seen: Evidence) -> Iterable[Finding]:
    """Each such part that takes 5 % of the time or more, the longest first."""
    partition = seen.partition
    for part in sorted(_PARTS, key=partition.share, reverse=True):
        share = partition.share(part)
        if share >= _LEAST:
            most = 1 / (1 - share) if share < 1 else None
            numbers = {"share": share, "headroom_s": partition.parts[part], "at_most": most, "of": partition.unit}
            yield Finding("time-waiting", "notes", part, numbers)
