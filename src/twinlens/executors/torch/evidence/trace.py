"""Kernels that ran, with their operand formats. Needs torch.

The profiler records operand types of every operator on processors and GPUs (`record_shapes=True`). The
formats are read on the leaf operators, below autocast, so a cast on the way in is seen as what it became.
On a GPU an operator's time is that of the kernels it launched; its own time on the processor is launching and
waiting, and is never put in the place of the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from twinlens.executors.in_process.precision_check import longest as longest_of
from twinlens.executors.in_process.precision_check import shares_by_format, summed

# Leaf operators that multiply matrices, and which operand is the activation. Wrappers (aten::linear,
# aten::matmul, aten::scaled_dot_product_attention) are left out: their operands are those before autocast.
_ACTIVATION = {
    "aten::mm": 0,
    "aten::addmm": 1,
    "aten::mv": 1,
    "aten::addmv": 2,
    "aten::_int_mm": 0,
    "aten::_scaled_mm": 0,
    "aten::_scaled_mm_v2": 0,
    "aten::_grouped_mm": 0,
    "aten::_scaled_grouped_mm": 0,
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
_SCALED = ("aten::_scaled_mm", "aten::_scaled_mm_v2", "aten::_scaled_grouped_mm")
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


@dataclass(frozen=True, slots=True)
class Kernel:
    """One operator or device kernel with one set of operand formats; `self_time_s` without those it called.

    `operands` are the tensor operands' formats in order; empty for device kernels, which do not say. `sizes` are their
    shapes, of matrix products alone. `on_device`: a kernel of the GPU, whose time is also that of its operator.
    """

    name: str
    calls: int
    self_time_s: float
    operands: tuple[str, ...] = ()
    sizes: tuple[tuple[int, ...], ...] = ()
    on_device: bool = False


def kernels_seen(call: Callable[[], Any], device: torch.device | str = "cpu") -> tuple[Kernel, ...]:
    """Kernels that one call ran, longest first. Profiling slows it: never time the call that is profiled."""
    on_gpu = torch.device(device).type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, record_shapes=True) as traced:
        call()
        if on_gpu:
            torch.cuda.synchronize(device)
    return kernels_of(traced.events() or (), on_gpu=on_gpu)


def kernels_of(events: Iterable[Any], *, on_gpu: bool) -> tuple[Kernel, ...]:
    """The profiler's events (torch.autograd.profiler_util.FunctionEvent) added up, longest first.

    Where a GPU's profiler gives no device events (a virtual GPU, another profiler attached), every time is 0: unknown.
    """
    totals: dict[tuple[Any, ...], tuple[int, float]] = {}
    for event in events:
        if getattr(event, "is_user_annotation", False):
            continue
        on_device = event.device_type != DeviceType.CPU
        time_us = float(event.self_device_time_total if on_gpu else event.self_cpu_time_total)
        types = () if on_device else getattr(event, "input_dtypes", None) or ()
        operands = tuple(_TYPES.get(t, t) for t in types if t in _TYPES or t.startswith("c10::Float8"))
        sizes = _sizes(event) if operands and _is_product(event.name) else ()
        key = (event.name, operands, sizes, on_device)
        calls, before_us = totals.get(key, (0, 0.0))
        totals[key] = (calls + 1, before_us + time_us)
    kernels = [Kernel(name, calls, us / 1e6, *rest) for (name, *rest), (calls, us) in totals.items()]
    return tuple(sorted(kernels, key=lambda kernel: -kernel.self_time_s))


def longest(kernels: Sequence[Kernel], count: int = 8) -> list[str]:
    """Names of what took longest: the GPU's own kernels where there are any, else operators."""
    timed = [kernel for kernel in kernels if kernel.self_time_s]
    spoken = [kernel for kernel in timed if kernel.on_device] or timed
    return longest_of(((kernel.name, kernel.self_time_s) for kernel in spoken), count)


def compute_formats(kernels: Sequence[Kernel], fp32_is: Mapping[str, float] | None = None) -> dict[str, float]:
    """Share of matrix-product time by the format it was computed in, largest first; empty if none was seen.

    `fp32_is`: the share of fp32 products that are computed in "fp32" and in "tf32" (torch_tf32), None where tf32 does
    not exist. Kernels of a captured graph have no operator: their names speak, where they say a format at all.
    """
    times = _times(kernels, _ACTIVATION) or _times(kernels, _ATTENTION) or _times_by_name(kernels)
    if fp32_is is not None and "fp32" in times:
        spent = times.pop("fp32")
        return shares_by_format([*times.items(), *((fmt, spent * share) for fmt, share in fp32_is.items() if share)])
    return shares_by_format(times.items())


def without_width(kernels: Sequence[Kernel], width: int) -> tuple[Kernel, ...]:
    """Without products one of whose matrices has a side of `width`: an output head that is left wider on purpose."""
    return tuple(kernel for kernel in kernels if not any(width in size for size in kernel.sizes))


def without_head(kernels: Sequence[Kernel], width: int, held: str) -> tuple[Kernel, ...]:
    """The same for a pass of a decoder whose head is `held` in a wider format, in a captured graph too.

    There kernels have no sizes: the head is the product in its format that ran once in the pass, and every layer's ran
    more than once.
    """
    return tuple(
        kernel
        for kernel in without_width(kernels, width)
        if not (kernel.on_device and kernel.calls == 1 and kernel_format(kernel.name) == held)
    )


def _times(kernels: Sequence[Kernel], activation: Mapping[str, int]) -> dict[str, float]:
    return summed(
        (_format(kernel, activation[kernel.name]), kernel.self_time_s)
        for kernel in kernels
        if kernel.self_time_s and kernel.name in activation and (kernel.operands or kernel.name in _INTEGER)
    )


def _times_by_name(kernels: Sequence[Kernel]) -> dict[str, float]:
    spoken = (kernel for kernel in kernels if kernel.on_device and kernel.self_time_s)
    return summed((fmt, kernel.self_time_s) for kernel in spoken if (fmt := kernel_format(kernel.name)))


def _format(kernel: Kernel, place: int) -> str:
    if kernel.name in _INTEGER:
        return "int8"
    # A backward product in fp8 is of e4m3 by e5m2, whichever stands first: it is an fp8 product, told under e4m3.
    if kernel.name in _SCALED and "fp8-e4m3" in kernel.operands[:2]:
        return "fp8-e4m3"
    return kernel.operands[min(place, len(kernel.operands) - 1)]


def _is_product(name: str) -> bool:
    return name in _ACTIVATION or name in _ATTENTION


def _sizes(event: Any) -> tuple[tuple[int, ...], ...]:
    shapes = getattr(event, "input_shapes", None) or ()
    return tuple(tuple(shape) for shape in shapes if shape and all(isinstance(side, int) for side in shape))


# The format that a GPU kernel's name tells: a second witness, and the only one inside a captured graph. cuBLAS,
# CUTLASS and cuDNN write operand formats into their names. Most names of TF32 kernels do not have "tf32" in them:
# `cutlass_80_tensorop_s1688gemm_*` is the usual one, where 1688 is the shape of one TF32 instruction and the `s` says
# that sums are single precision; with `fp16_` or `bf16_` in the name the operands are those. cuBLAS 12.4 and later
# says `nvjet_CODE_` (from CUDA 12.9 on `nvjet_sm90_CODE_`, by the board's generation), where CODE has a letter for
# each tensor: three are operands, sums and output, five the two operands, an addend, sums and output. So `tst` and
# `tss` are bf16 by bf16, `hsh` fp16, `qqtst` and `qqhsh` fp8, `ootst` 4 bits, `sss_tf32` tf32. `Avec16UE4M3` further
# on is the scale of a block of 16, `Avec32UE8M0` that of 32. All of these were read in public traces of H100, B200,
# B300 and RTX PRO 6000.

_NVJET = re.compile(r"nvjet_(?:sm\d+[a-z]?_)?([a-z]{3,5})_(.*)", re.IGNORECASE | re.DOTALL)
_OPERANDS = {"t": "bf16", "h": "fp16", "s": "fp32", "q": "fp8-e4m3", "o": "fp4"}
_OF_BLOCKS = {("fp4", "16ue4m3"): "nvfp4", ("fp4", "32ue8m0"): "mxfp4", ("fp8-e4m3", "32ue8m0"): "mxfp8"}
# The first that fits counts: names of narrow formats also hold "f32", the format of their sums, and "e4m3", that of
# their blocks' scales.
_FORMATS: tuple[tuple[str, str], ...] = (
    (r"ue4m3xf4|ue4m3xe2m1|nvfp4", "nvfp4"),
    (r"ue8m0xf4|ue8m0xe2m1|mxfp4", "mxfp4"),
    (r"ue8m0xe4m3|ue8m0xe5m2|ue8m0xf8|mxfp8", "mxfp8"),
    (r"e2m1|fp4", "fp4"),
    (r"e4m3|e5m2|fp8|qgmma", "fp8-e4m3"),
    (r"imma|s8_|i8816|i16832|int8|_i8_", "int8"),
    (r"bf16|bfloat16", "bf16"),
    (r"fp16|f16_|f16f16|h884|h1688|h16816|hgemm|__half|hmma", "fp16"),
    (r"tf32|s1688", "tf32"),
    (r"sgemm|f32f32_f32f32|simt|gemv.*float", "fp32"),
)
_PRODUCT = re.compile(
    r"gemm|gemv|nvjet|cutlass|xmma|splitk|wgrad|dgrad|fprop|conv|_mm(?:_|$)|_mv(?:_|$)|bmm_e2m1", re.IGNORECASE
)


def kernel_format(name: str) -> str | None:
    """The operand format in a matrix kernel's name; None for other kernels and for names that do not say."""
    if not _PRODUCT.search(name) or "reduce" in name.lower():
        return None
    if jet := _NVJET.search(name):
        return _of_nvjet(jet[1].lower(), jet[2].lower())
    return next((fmt for pattern, fmt in _FORMATS if re.search(pattern, name, re.IGNORECASE)), None)


def _of_nvjet(code: str, rest: str) -> str | None:
    """The format of both operands; None where they differ, and for a letter that no trace explains."""
    operands = {_OPERANDS.get(letter) for letter in (code[:2] if len(code) == 5 else code[:1])}
    if len(operands) != 1 or (known := operands.pop()) is None:
        return None
    if known == "fp32":
        return "tf32" if "tf32" in rest else "fp32"
    scale = re.search(r"avec(\d+u?e\d+m\d+)", rest)
    return _OF_BLOCKS.get((known, scale[1]), known) if scale else known


def is_product(name: str) -> bool:
    """Whether a kernel's name is that of a matrix product or convolution."""
    return bool(_PRODUCT.search(name))
