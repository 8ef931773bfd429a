"""The optimizer takes longer than the bytes it has to move: its headroom is what is above that."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.phase import known
from twinlens.record.finding import Finding

_LEAST = 0.1


def optimizer_time(seen: Evidence) -> Iterable[Finding]:
    """Where the optimizer takes a tenth of a step or more."""
    share, spent_s = seen.partition.share("optimize"), seen.partition.parts.get("optimize", 0.0)
    rate = known(seen.ceilings, "copy_bytes_per_s")
    if share < _LEAST or not seen.optimizer_bytes or not rate:
        return
    least_s = seen.optimizer_bytes / rate
    numbers = {
        "share": share, "seconds": spent_s, "least_s": least_s, "headroom_s": max(0.0, spent_s - least_s),
        "bytes": seen.optimizer_bytes,
        # Twice the samples a step: everything but the optimizer doubles, so this is all that can be won.
        "at_most": 2 / (2 - share),
    }  # fmt: skip
    yield Finding(
        "optimizer-time", "notes", "optimize", numbers, {"copy_bytes_per_s": seen.ceilings["copy_bytes_per_s"]}
    )
