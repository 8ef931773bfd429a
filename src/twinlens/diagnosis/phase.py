"""Phases of computation under the roofline: their work, their time, the ceilings, and the parts a time is cut into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.theory.flop import forward_flop_per_image, optimizer_flop
from twinlens.theory.memory import layout_of
from twinlens.theory.roofline import ridge_point
from twinlens.theory.traffic import training_phase_bytes


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


# The time of a step or a request, split into parts on one clock: they add up to all of it.

Unit = Literal["step", "request"]
UNATTRIBUTED = "unattributed"
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Partition:
    """The mean time of one `unit` in seconds, by part, in the order in which it passes; "unattributed" comes last.

    `count`: steps or requests behind it. `reason`: why there is none; then `parts` is empty.
    """

    unit: Unit
    parts: Mapping[str, float]
    count: int
    reason: str | None = None

    @property
    def seconds(self) -> float:
        """The mean time of one step or request."""
        return sum(self.parts.values())

    def share(self, part: str) -> float:
        """The share of a part, 0 to 1; 0 of a part that does not exist here."""
        return self.parts.get(part, 0.0) / self.seconds if self.seconds else 0.0

    def __json__(self) -> dict[str, Any]:
        """A plain mapping, with the share of each part."""
        parts = [{"part": name, "seconds": s, "share": self.share(name)} for name, s in self.parts.items()]
        plain = {"unit": self.unit, "seconds": self.seconds, "count": self.count, "parts": parts}
        return plain | ({"reason": self.reason} if self.reason else {})


def partition_of(unit: Unit, total_s: float, spent_s: Mapping[str, float], count: int) -> Partition:
    """A partition of `total_s`, summed over `count` steps or requests; what `spent_s` leaves is unattributed.

    Absent where the parts come to more than there was: they then overlap, and no share of them means anything.
    """
    if count <= 0 or total_s <= 0:
        return absent(unit, "no step or request of the window ended well")
    left = total_s - sum(spent_s.values())
    if left < -_ROUNDING * total_s or any(spent < -_ROUNDING * total_s for spent in spent_s.values()):
        return absent(unit, "the parts overlap: together they are more than the time there was")
    parts = {name: max(0.0, spent) / count for name, spent in spent_s.items()}
    return Partition(unit, parts | {UNATTRIBUTED: max(0.0, left) / count}, count)


def absent(unit: Unit, reason: str) -> Partition:
    """No partition, and why."""
    return Partition(unit, {}, 0, reason)


# Work of each phase of a training step by theory: FLOP and least bytes of forward, backward and optimizer.


def phase_work(run: Run) -> dict[str, tuple[float, float]]:
    """FLOP and bytes of one step by phase, which sum to the step's; empty where the model or the work is not known, and
    where an adapter is trained.

    Forward is a third of the FLOP of a decoder's step, as backward forms two products for each of forward's. FLOP of
    the optimizer are elementwise and come on top.
    """
    workload, done = run.spec.workload, known(run.facts.work, "step_flop") if run.facts else None
    if not isinstance(workload, TrainingWorkload) or done is None or workload.method != "full":
        return {}
    try:
        shape = run.spec.model.shape
    except BadInput:
        return {}  # the model's folder is not here any more
    if shape is None:
        return {}
    if isinstance(shape, DecoderShape):
        forward, seq_len = done / 3, workload.seq_len
    else:
        forward, seq_len = forward_flop_per_image(shape) * workload.global_batch, None
    flop = {"forward": forward, "backward": done - forward, "optimize": optimizer_flop(shape)}
    microbatch = run.spec.point.microbatch or workload.global_batch
    accumulation = workload.global_batch // microbatch
    moved = training_phase_bytes(shape, layout_of(run.spec.precision), microbatch, seq_len, accumulation)
    return {phase: (flop[phase], float(moved[phase])) for phase in flop}
