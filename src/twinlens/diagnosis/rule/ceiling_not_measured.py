"""Validity: no roofline without ceilings that the run measured; a datasheet is not held in their place."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence, Rule
from twinlens.diagnosis.phase import known
from twinlens.record.finding import Finding

_NEEDED = {"compute": ("matrix_flop_per_s_at", "matrix_flop_per_s"), "bandwidth": ("read_bytes_per_s",)}


def ceiling_not_measured(seen: Evidence) -> Iterable[Finding]:
    """Where a roof of the roofline is not known."""
    lacking = [roof for roof, names in _NEEDED.items() if not any(known(seen.ceilings, name) for name in names)]
    if lacking:
        numbers = {"lacking": lacking, "served": seen.kind == "served", "place": seen.place}
        yield Finding("ceiling-not-measured", "warns", "", numbers)


RULE = Rule(
    code="ceiling-not-measured",
    find=ceiling_not_measured,
    says="The run did not measure how fast this machine computes or reads memory, so no roofline can be drawn.",
    why=(
        "Compute-bound and bandwidth-bound need a measured ceiling. Verdicts from parts of time (input, "
        "interconnect, host, queue, capacity) still hold."
    ),
    evidence=(
        "No matrix rate or no read rate is among the facts of the run. A datasheet does not stand in: kernels"
        " reach 50 to 97 % of it."
    ),
    lies=(
        "A ceiling of another day or clock is not that of the run: one from an earlier probe is named as such in "
        "each counter."
    ),
    remedy=(
        "Measure with protocol.ceilings = true. For a server on another machine: `twinlens probe --json > probe.json` "
        "there, then `twinlens diagnose RUN --ceilings probe.json`."
    ),
    falsifier="`twinlens show RUN --json` has a matrix rate and a read rate among the ceilings of this run.",
    sources=(
        'Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), '
        "2009, doi:10.1145/1498765.1498785",
        'McCalpin, "Memory bandwidth and machine balance in current high performance computers", IEEE TCCA '
        "newsletter, 1995 (STREAM)",
    ),
    see=("ceiling", "roofline"),
)
