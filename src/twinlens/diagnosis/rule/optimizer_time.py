"""The optimizer takes longer than the bytes it has to move: its headroom is what is above that."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence, Rule
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


RULE = Rule(
    code="optimizer-time",
    find=optimizer_time,
    says="The optimizer takes at least a tenth of each step.",
    why=(
        "The optimizer moves the same bytes whatever the batch. Twice the samples a step share its time, so "
        "throughput rises by at most 2 / (2 − share)."
    ),
    evidence=(
        "Time of the `optimize` phase beside the time that its bytes take at the measured copy bandwidth: "
        "gradients read, weights and states read and written, as resident. `headroom_s` is the difference."
    ),
    lies="Clipping and scaling of gradients within the phase move more bytes than are counted here.",
    remedy="Take a fused optimizer, one with fewer states, or accumulate more samples a step.",
    falsifier=(
        "Measure with twice the samples a step. A gain in samples per second above 2 / (2 − share) proves this wrong."
    ),
    sources=(
        'Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC 2020,'
        " arXiv:1910.02054, on bytes of the states",
        "PyTorch documentation, torch.optim, on foreach and fused implementations",
    ),
    see=("optimizer_bytes", "step_share", "diagnosis"),
    laws=("transfer-time",),
)
