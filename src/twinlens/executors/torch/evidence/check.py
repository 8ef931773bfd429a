"""Compare the formats held and the formats computed in with those declared, per tensor class and phase. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from twinlens.executors.in_process.precision_check import over_phases, precision_checks
from twinlens.executors.torch.evidence.resident import Resident, hardware_formats
from twinlens.executors.torch.evidence.tf32 import Product, fp32_computed_in, tf32_by_name
from twinlens.executors.torch.evidence.trace import Kernel, compute_formats
from twinlens.record.executor.record import PrecisionCheck
from twinlens.spec.precision import Precision


def check_precision(
    declared: Mapping[str, str],
    resident: Resident,
    kernels: Sequence[Kernel],
    device: str = "cpu",
    hardware: Mapping[str, str] | None = None,
    fp32_is: Mapping[str, float] | None = None,
) -> tuple[PrecisionCheck, ...]:
    """One check per declared tensor class ("compute" among them, if given), against memory and what ran.

    `declared` is Precision.classes(lens), with "compute" added by the caller. A class nobody can see
    (accumulation is inside the kernel) is "unknown", never "agrees". `fp32_is`: see `compute_formats`.
    """
    support = dict(hardware_formats(device) if hardware is None else hardware)
    ran = compute_formats(kernels, fp32_is)
    blind = bool(kernels) and not any(kernel.self_time_s for kernel in kernels)
    missing = f"the profiler gave no {'device events' if blind else 'matrix product'}"
    return precision_checks(declared, resident, ran, support, missing)


def check_phases(
    declared: Mapping[str, str],
    resident: Resident,
    phases: Mapping[str, Sequence[Kernel]],
    device: str = "cpu",
    fp32_is: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[PrecisionCheck, ...]:
    """The same over everything that runs (prefill and decode): one check per tensor class.

    One phase that differs makes the whole differ; "agrees" wants every phase to have been seen.
    """
    witnessed = fp32_is or {}
    each = {
        phase: check_precision(declared, resident, kernels, device, None, witnessed.get(phase))
        for phase, kernels in phases.items()
    }
    return over_phases(each)


def witnessed_checks(
    regime: Precision,
    lens: Any,
    resident: Any,
    kernels: Mapping[str, Sequence[Kernel]],
    products: Mapping[str, Mapping[Product, int]],
    device: torch.device,
) -> tuple[PrecisionCheck, ...]:
    asked = regime.classes(lens) | {"compute": regime.compute}
    if device.type != "cuda" or regime.compute not in ("fp32", "tf32"):
        return check_phases(asked, resident, kernels, str(device))
    tried = {phase: fp32_computed_in(products.get(phase, {}), device) for phase in kernels}
    checks = check_phases(asked, resident, kernels, str(device), tried)
    named = {phase: share for phase, seen in kernels.items() if (share := tf32_by_name(seen)) is not None}
    return tuple(_witnessed(check, tried, named) for check in checks)


def _witnessed(
    check: PrecisionCheck, tried: Mapping[str, Mapping[str, float]], named: Mapping[str, float]
) -> PrecisionCheck:
    """The evidence with what the arithmetic and the kernels' names say; where they disagree, that is said."""
    if check.tensor_class != "compute":
        return check
    words = [f"{phase} {shares.get('tf32', 0.0):.0%}" for phase, shares in tried.items()]
    names = [f"{phase} {share:.0%}" for phase, share in named.items()]
    witness = f"tf32 by arithmetic at the model's shapes: {', '.join(words)}"
    witness += f"; by names of kernels: {', '.join(names)}" if names else ""
    return replace(check, evidence=f"{check.evidence}; {witness}")
