"""Validity: a board's own counter and the bound by theory cannot both be right about the work that was done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from twinlens.diagnosis.evidence import Evidence, Rule
from twinlens.diagnosis.instrument import told
from twinlens.diagnosis.phase import Phase, known
from twinlens.record.finding import Finding

_APART, _TIMES = 0.3, 2.0
_MOST = {
    "dram": ("dram_active", "least_bytes", ("datasheet_bytes_per_s", "read_bytes_per_s", "copy_bytes_per_s")),
    "tensor pipes": ("tensor_active", "flop", ("datasheet_flop_per_s", "matrix_flop_per_s", "matrix_flop_per_s_at")),
}
"""What is counted: column of the instrument, work of a phase, and the rates it may be held against, the first known."""


def instrument_contradicts(seen: Evidence) -> Iterable[Finding]:
    """Where both are known for one device, and are 30 points apart and by a factor of two."""
    if seen.kind == "served" or seen.devices != 1:
        return
    for subject, (column, work, rates) in _MOST.items():
        counted, bound = told(seen.instruments, column), _bound(seen, work, rates)
        if counted is None or bound is None or counted[1].value is None:
            continue
        instrument, value = counted
        share, least = float(value.value or 0.0), bound["share"]
        more = share - least >= _APART and share >= _TIMES * least
        less = least - share >= _APART and least >= _TIMES * share
        if subject == "tensor pipes" and less and not _on_tensor_pipes(seen):
            continue
        if more or less:
            numbers = {"source": instrument.source, "counted": share, "bound": least, "of": bound["of"],
                       "which": "more" if more else "less", "n": value.n}  # fmt: skip
            yield Finding("instrument-contradicts", "warns", subject, numbers, {column: value})


def _bound(seen: Evidence, work: str, rates: tuple[str, ...]) -> dict[str, Any] | None:
    """The least share of a rate that the work of all phases needs over all of the time."""
    rate = next((name for name in rates if known(seen.ceilings, name)), None)
    done = [_done(phase, work, seen) for phase in seen.phases]
    total_s = seen.partition.seconds
    if rate is None or not total_s or any(each is None for each in done):
        return None
    least = sum(each or 0.0 for each in done) / total_s / (known(seen.ceilings, rate) or 1.0)
    return {"share": min(1.0, least), "of": rate}


def _done(phase: Phase, work: str, seen: Evidence) -> float | None:
    """Bytes or FLOP of a phase in one step or request, in which it may be done many times."""
    amount = getattr(phase, work)
    if not amount or not phase.seconds or (work == "flop" and phase.at_most_because):
        return None
    return float(amount) / phase.seconds * seen.partition.parts.get(phase.part, phase.seconds)


def _on_tensor_pipes(seen: Evidence) -> bool:
    """Whether products in this format are of tensor pipes at all: plain fp32 is not."""
    return seen.precision is not None and seen.precision.compute != "fp32"


RULE = Rule(
    code="instrument-contradicts",
    find=instrument_contradicts,
    says="A counter of the board itself and the bound by theory differ so much that one of them is of something else.",
    why=(
        "Verdict, headroom and advice hold the least bytes and FLOP by theory against the time. Where the board "
        "counted far more, most of its traffic is work that theory leaves out, and removing it is the first remedy; "
        "where it counted far less, the bound is of other work than ran."
    ),
    evidence=(
        "The share of DRAM bandwidth, or of time with busy tensor pipes, by NVML GPM or DCGM over the steady window, "
        "against least bytes or FLOP by theory over the same time and the datasheet's rate (where it is not known, the "
        "measured one). Told from 30 points and a factor of two apart; of one device, and not of a server, whose own "
        "bound is a lower one. Plain fp32 uses no tensor pipes and is left out there."
    ),
    lies=(
        "Another process used the board meanwhile; DCGM's figures were of an earlier half minute; a cache of the board "
        "kept what theory says is read each time; the board is in MIG mode and the counter is of all of it."
    ),
    remedy=(
        "Look at time by class of kernel (`diagnose RUN --instrument profiler`): copies and element-wise work move "
        "bytes that no product needs. Where the board counted less, look at what the run observed of model, "
        "precision and device."
    ),
    falsifier=(
        "Measure again with nothing else on the board: a counter that then agrees with theory was of another process."
    ),
    sources=(
        "NVIDIA, NVML API reference, GPM functions (nvmlGpmMetricsGet)",
        "NVIDIA, DCGM documentation, profiling metrics (DCGM_FI_PROF_DRAM_ACTIVE, DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)",
    ),
    see=("diagnosis", "bandwidth-bound", "roofline"),
)
