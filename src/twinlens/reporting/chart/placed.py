"""Points of the roofline: the work of each operating point, by phase of a step, or as prefill and decode."""

from __future__ import annotations

import math
from dataclasses import dataclass

from twinlens.diagnosis.phase import phase_work
from twinlens.record.estimate import Estimate
from twinlens.reporting.view import Entry, LensView
from twinlens.theory.roofline import attainable_flop_per_s

# kind → FLOP and bytes in Facts.work, and the metric that holds the time of that unit of work.
_KINDS = {
    "training": (("training step", "step_flop", "step_bytes", "step_s_p50"),),
    "inference": (
        ("prefill", "prefill_flop", "prefill_bytes", "ttft_s_p50"),
        ("decode", "decode_flop", "decode_bytes", "tpot_s_p50"),
    ),
}
_PHASES = {"forward": "forward", "backward": "backward", "optimize": "optimizer"}
Roof = tuple[float, float, float | None]
"""Matrix rate in FLOP/s, read bandwidth in bytes/s, and the rate of mat-vec kernels in bytes/s where measured."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One kind of work of one entry on the roofline."""

    entry: str
    kind: str
    flop_per_byte: float
    flop_per_s: float
    reached: float | None


def placed_points(lens: LensView, entries: tuple[Entry, ...]) -> tuple[list[Placed], list[str]]:
    """The points that can be placed, and a sentence for each that cannot.

    A training step is placed by its phases where it has them: forward, backward and the optimizer.
    """
    placed, missing = [], []
    for entry in entries:
        beneath, phases = roof(entry), _phases(entry)
        placed += [_placed(entry.name, kind, *parts, beneath) for kind, parts in phases.items()]
        if phases:
            continue
        facts = next((run.facts for run, _ in entry.material if run.facts is not None), None)
        for kind, flop_id, bytes_id, time_id in _KINDS[lens.lens]:
            work = facts.work if facts is not None else {}
            parts = {
                flop_id: work.get(flop_id),
                bytes_id: work.get(bytes_id),
                time_id: entry.group.metrics.get(time_id),
            }
            words = zip(("FLOP", "bytes", "time"), parts.values(), strict=True)
            if absent := [word for word, estimate in words if number(estimate) is None]:
                missing.append(f"{kind} of {entry.name} is left out: {', '.join(absent)} not known")
                continue
            flop, moved, took_s = (number(estimate) or math.nan for estimate in parts.values())
            placed.append(_placed(entry.name, kind, flop, moved, took_s, beneath))
    return placed, missing


def _placed(entry: str, kind: str, flop: float, moved: float, took_s: float, beneath: Roof | None) -> Placed:
    reached = flop / took_s / attainable_flop_per_s(flop / moved, *beneath[:2]) if beneath else None
    return Placed(entry, kind, flop / moved, flop / took_s, reached)


def _phases(entry: Entry) -> dict[str, tuple[float, float, float]]:
    """FLOP, bytes and seconds of each phase of a training step; empty unless all are known.

    Seconds are the share of the phase times the median step, both over all repeats.
    """
    run = next((run for run, _ in entry.material if run.facts is not None and "step_bytes" in run.facts.work), None)
    if run is None:
        return {}
    work, step_s = phase_work(run), number(entry.group.metrics.get("step_s_p50"))
    shares = {phase: number(entry.group.metrics.get(f"{phase}_share")) for phase in work}
    if step_s is None:
        return {}
    known = {phase: share * step_s for phase, share in shares.items() if share is not None}
    if len(known) < len(_PHASES):
        return {}
    return {word: (*work[phase], known[phase]) for phase, word in _PHASES.items()}


def roof(entry: Entry) -> Roof | None:
    """As measured beside the first run that has both roofs; products of the model's own shapes go before others."""
    for run, _ in entry.material:
        ceilings = run.facts.ceilings if run.facts is not None else {}
        peak = number(ceilings.get("matrix_flop_per_s_at")) or number(ceilings.get("matrix_flop_per_s"))
        bandwidth, kernel = (number(ceilings.get(key)) for key in ("read_bytes_per_s", "matvec_bytes_per_s"))
        if peak and bandwidth:
            return peak, bandwidth, kernel if kernel and kernel < bandwidth else None
    return None


def number(estimate: Estimate | None) -> float | None:
    """A value that is there and above 0, as a logarithmic axis needs."""
    return estimate.value if estimate is not None and estimate.value and estimate.value > 0 else None
