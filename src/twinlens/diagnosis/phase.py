"""Phases of computation under the roofline: work by theory, time by the rows, ceilings as this run measured them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twinlens.record.estimate import Estimate
from twinlens.theory.roofline import ridge_point


@dataclass(frozen=True, slots=True)
class Phase:
    """One step, prefill or decode step. `seconds`: its mean time; `flop`, `least_bytes`: by theory, each byte once.

    `most_bytes`: as if every product were a kernel of its own that reads and writes its activations; None where
    unknown. `kernel_bytes`: of the linear weights, which the mat-vec ceiling is about. `reason`: why work or time is
    not known. `at_most_because`: why `flop` is only an upper bound of the work; "" where it is the work.
    """

    name: str
    part: str
    seconds: float | None
    flop: float | None
    least_bytes: float | None
    most_bytes: float | None = None
    kernel_bytes: float | None = None
    reason: str | None = None
    at_most_because: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a phase lies under its roofs. Intensities and the ridge are FLOP/byte, shares are of measured ceilings.

    `compute_ceiling`, `bandwidth_ceiling`: which ceilings decided, by the names they have in the facts.
    `stream_share`: of the rate of a plain read or copy, whatever kernels reach at the shapes of this model.
    `at_most_because`: why `compute_share` and `intensity_high` are upper bounds only; "" where they are not.
    """

    intensity_low: float | None
    intensity_high: float
    ridge: float
    compute_share: float
    bandwidth_share: float
    bandwidth_share_most: float | None
    stream_share: float
    compute_ceiling: str
    bandwidth_ceiling: str
    at_most_because: str = ""

    def to_numbers(self) -> dict[str, Any]:
        """As numbers of a finding; `at_most_because` only where it says something."""
        return {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name != "at_most_because" or self.at_most_because
        }


def place_of(phase: Phase, ceilings: Mapping[str, Estimate]) -> Place | None:
    """Where the phase lies; None where work, time or a measured ceiling is not known, or the work only bounded."""
    return None if phase.at_most_because else bounded_place_of(phase, ceilings)


def bounded_place_of(phase: Phase, ceilings: Mapping[str, Estimate]) -> Place | None:
    """The same, also of a phase whose FLOP are only bounded from above.

    Compute: products of the model's own shapes, where they were measured. Bandwidth: a copy for a training step, which
    writes as much as it reads, else a read; and for decode the rate at which its own mat-vec kernels read weights.
    """
    compute = next((name for name in ("matrix_flop_per_s_at", "matrix_flop_per_s") if known(ceilings, name)), None)
    streams = ("copy_bytes_per_s", "read_bytes_per_s") if phase.name == "step" else ("read_bytes_per_s",)
    stream = next((name for name in streams if known(ceilings, name)), None)
    if compute is None or stream is None or not phase.seconds or not phase.flop or not phase.least_bytes:
        return None
    peak, rate = known(ceilings, compute) or 0.0, known(ceilings, stream) or 0.0
    stream_share = phase.least_bytes / phase.seconds / rate
    matvec = known(ceilings, "matvec_bytes_per_s")
    kernel = phase.kernel_bytes / phase.seconds / matvec if phase.kernel_bytes and matvec else 0.0
    by_kernel = kernel > stream_share
    return Place(
        intensity_low=phase.flop / phase.most_bytes if phase.most_bytes and not phase.at_most_because else None,
        intensity_high=phase.flop / phase.least_bytes,
        ridge=float(ridge_point(peak, rate)),
        compute_share=phase.flop / phase.seconds / peak,
        bandwidth_share=max(stream_share, kernel),
        bandwidth_share_most=phase.most_bytes / phase.seconds / rate if phase.most_bytes else None,
        stream_share=stream_share,
        compute_ceiling=compute,
        bandwidth_ceiling="matvec_bytes_per_s" if by_kernel else stream,
        at_most_because=phase.at_most_because,
    )


def known(estimates: Mapping[str, Estimate], name: str) -> float | None:
    """A value that is there and above 0."""
    value = estimates[name].value if name in estimates else None
    return value if value is not None and value > 0 else None
