"""Which kernels really ran, in which operand formats, and whether that is what was declared. Needs torch.

The profiler records operand types of every operator on processors and GPUs (`record_shapes=True`). The
formats are read on the leaf operators, below autocast, so a cast on the way in is seen as what it became.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from twinlens.executors.torch_resident import Resident, hardware_formats
from twinlens.record.executor import PrecisionCheck, Support
from twinlens.spec.precision import BITS

# Leaf operators that multiply matrices, and which operand is the activation. Wrappers (aten::linear,
# aten::matmul, aten::scaled_dot_product_attention) are left out: their operands are those before autocast.
_ACTIVATION = {
    "aten::mm": 0,
    "aten::addmm": 1,
    "aten::mv": 1,
    "aten::addmv": 2,
    "aten::_int_mm": 0,
    "aten::_scaled_mm": 0,
    "aten::_weight_int8pack_mm": 0,
    "aten::_weight_int4pack_mm": 0,
    "aten::_weight_int4pack_mm_for_cpu": 0,
    "aten::mkldnn_convolution": 0,
    "aten::cudnn_convolution": 0,
    "aten::convolution_backward": 0,
    "aten::_mps_linear": 0,
    "mkldnn::_linear_pointwise": 0,
    "mkl::_mkl_linear": 0,
    "quantized::linear_dynamic": 0,
    "onednn::qlinear_pointwise": 0,
}
# Products of activations with activations (attention) stay high in most regimes: they speak only where
# nothing else did.
_ATTENTION = {"aten::bmm": 0, "aten::baddbmm": 1}
# These quantise their fp32 input inside the kernel: the product itself is of int8 by int8.
_INTEGER = ("quantized::linear_dynamic", "onednn::qlinear_pointwise", "aten::_int_mm")
_TYPES = {
    "float": "fp32",
    "double": "fp64",
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "c10::Float8_e4m3fn": "fp8-e4m3",
    "c10::Float8_e5m2": "fp8-e5m2",
    "signed char": "int8",
    "unsigned char": "uint8",
    "int": "int32",
}
_AGREES = 0.75  # of the elements or of the time: a model may keep a sensitive layer high, and the evidence says so


@dataclass(frozen=True, slots=True)
class Kernel:
    """One operator or device kernel with one set of operand formats; `self_time_s` without those it called.

    `operands` are the tensor operands' formats in order; empty for device kernels, which do not say.
    """

    name: str
    calls: int
    self_time_s: float
    operands: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A plain mapping."""
        return {**asdict(self), "operands": list(self.operands)}


def kernels_seen(call: Callable[[], Any]) -> tuple[Kernel, ...]:
    """What one call ran, longest first. Profiling slows it: never time the call that is profiled."""
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, record_shapes=True) as traced:
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    totals: dict[tuple[str, tuple[str, ...]], tuple[int, float]] = {}
    for event in traced.events() or ():
        time_us = float(event.self_device_time_total or event.self_cpu_time_total)
        types = getattr(event, "input_dtypes", None) or ()
        key = (event.name, tuple(_TYPES[t] for t in types if t in _TYPES))
        calls, before_us = totals.get(key, (0, 0.0))
        totals[key] = (calls + 1, before_us + time_us)
    kernels = [Kernel(name, calls, us / 1e6, operands) for (name, operands), (calls, us) in totals.items()]
    return tuple(sorted(kernels, key=lambda kernel: -kernel.self_time_s))


def compute_formats(kernels: Sequence[Kernel]) -> dict[str, float]:
    """Share of matrix-product time by the format it was computed in, largest first; empty if none was seen.

    fp32 operands count as tf32 where a device kernel names itself so.
    """
    tf32 = any("tf32" in kernel.name for kernel in kernels)
    times = _times(kernels, _ACTIVATION) or _times(kernels, _ATTENTION)
    if tf32 and "fp32" in times:
        times["tf32"] = times.pop("fp32")
    total = math.fsum(times.values())
    ordered = sorted(times.items(), key=lambda item: -item[1])
    return {fmt: time / total for fmt, time in ordered} if total else {}


def observed_compute_format(kernels: Sequence[Kernel]) -> str | None:
    """The format in which most of the matrix-product time went, or None where no product was seen."""
    return next(iter(compute_formats(kernels)), None)


def _times(kernels: Sequence[Kernel], activation: Mapping[str, int]) -> dict[str, float]:
    times: dict[str, float] = {}
    for kernel in kernels:
        if kernel.name in activation and (kernel.operands or kernel.name in _INTEGER):
            place = min(activation[kernel.name], len(kernel.operands) - 1)
            fmt = "int8" if kernel.name in _INTEGER else kernel.operands[place]
            times[fmt] = times.get(fmt, 0.0) + kernel.self_time_s
    return times


def check_precision(
    declared: Mapping[str, str],
    resident: Resident,
    kernels: Sequence[Kernel],
    device: str = "cpu",
    hardware: Mapping[str, str] | None = None,
) -> tuple[PrecisionCheck, ...]:
    """One check per declared tensor class ("compute" among them, if given), against memory and what ran.

    `declared` is Precision.classes(lens), with "compute" added by the caller. A class nobody can see
    (accumulation is inside the kernel) is "unknown", never "agrees".
    """
    support = dict(hardware_formats(device) if hardware is None else hardware)
    ran = compute_formats(kernels)
    return tuple(_check(name, fmt, resident, ran, support) for name, fmt in declared.items())


def _check(
    name: str, declared: str, resident: Resident, ran: Mapping[str, float], support: Mapping[str, str]
) -> PrecisionCheck:
    computed = next(iter(ran), None)
    if name in ("compute", "activations"):
        shares, what = dict(ran), "matrix-product time"
        if name == "activations":  # tf32 is computed from activations that are stored in 32 bits
            shares = {("fp32" if fmt == "tf32" else fmt): share for fmt, share in ran.items()}
        missing = "no matrix product was seen by the profiler"
    else:
        shares, what = _element_shares(resident.get(name, {})), "elements held"
        missing = f"{name} cannot be seen from outside the kernel" if name == "accumulation" else f"no {name} held"
    if not shares:
        return PrecisionCheck(name, declared, None, "unknown", _support(name, declared, computed, support), missing)
    found = max(shares, key=lambda fmt: shares[fmt])
    agrees = shares.get(declared, 0.0) >= _AGREES
    seen = ", ".join(f"{fmt} {share:.0%}" for fmt, share in sorted(shares.items(), key=lambda item: -item[1]))
    kind = _support(name, declared if agrees else found, computed, support)
    mixed = ", ".join(fmt for fmt, share in shares.items() if share >= 0.05)
    observed = declared if agrees else found if found != declared else mixed
    return PrecisionCheck(name, declared, observed, "agrees" if agrees else "differs", kind, f"{what}: {seen}")


def _element_shares(formats: Mapping[str, int]) -> dict[str, float]:
    """Shares by elements, so that the narrow formats are not counted small for being narrow."""
    elements = {fmt: 8.0 * size / BITS.get(fmt, 64 if fmt.endswith("64") else 8) for fmt, size in formats.items()}
    total = math.fsum(elements.values())
    return {fmt: count / total for fmt, count in elements.items()} if total else {}


def _support(name: str, fmt: str, computed: str | None, support: Mapping[str, str]) -> Support:
    """Storage-only: held narrower than the products compute, so every use converts."""
    if name in ("weights", "kv") and computed and fmt != computed and BITS.get(fmt, 64) < BITS.get(computed, 0):
        return "storage-only"
    if fmt == "int4":
        return "storage-only"
    if fmt == "int32" and name == "accumulation":
        fmt = "int8"
    known = support.get(fmt, "unknown")
    return "native" if known == "native" else "emulated" if known == "emulated" else "unknown"
