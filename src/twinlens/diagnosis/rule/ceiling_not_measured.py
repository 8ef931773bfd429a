"""Validity: no roofline without ceilings that the run measured; a datasheet is not held in their place."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.phase import known
from twinlens.record.finding import Finding

_NEEDED = {"compute": ("matrix_flop_per_s_at", "matrix_flop_per_s"), "bandwidth": ("read_bytes_per_s",)}


def ceiling_not_measured(seen: Evidence) -> Iterable[Finding]:
    """Where a roof of the roofline is not known."""
    lacking = [roof for roof, names in _NEEDED.items() if not any(known(seen.ceilings, name) for name in names)]
    if lacking:
        yield Finding("ceiling-not-measured", "warns", "", {"lacking": lacking, "served": seen.kind == "served"})
