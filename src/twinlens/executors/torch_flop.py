"""Counting FLOP on a real step, and how much of the step's time the count covers.

PyTorch's FlopCounterMode knows no formula for CPU attention and counts it 0, and it counts causal attention in full.
The missing formulas stand here: two products of (query, key, head) forward and five backward (the backward recomputes
the scores), half of each where the mask is causal. Coverage is the share of operator time spent in operators that
have a formula: below 0.9, a count is a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from twinlens.executors.torch_facts import Kernel

# Operators and device kernels that have a formula, by how their names begin or what they contain.
_COUNTED_OPERATORS = (
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "convolution",
    "mkldnn_convolution",
    "_scaled_dot_product",
    "_weight_int",
    "_scaled_mm",
    "_int_mm",
    "quantized::linear_dynamic",
    "mkldnn::_linear_pointwise",
    "mkl::_mkl_linear",
    "cudnn_convolution",
)
_COUNTED_KERNELS = ("gemm", "cutlass", "nvjet", "flash", "fmha", "conv", "wgrad", "dgrad")


def counted_flop(call: Callable[[], Any]) -> int:
    """FLOP of one call, matrix products, convolutions and attention counted; 2 per multiply-add."""
    with FlopCounterMode(display=False, custom_mapping=_formulas()) as counter:
        call()
    return int(counter.get_total_flops())


def flop_coverage(kernels: Sequence[Kernel]) -> float:
    """Share (0-1) of the profiled time that operators with a formula take."""
    total = sum(kernel.self_time_s for kernel in kernels)
    return sum(kernel.self_time_s for kernel in kernels if _has_formula(kernel.name)) / total if total else 0.0


def _has_formula(name: str) -> bool:
    operator = name.removeprefix("aten::")
    return operator.startswith(_COUNTED_OPERATORS) or any(word in name for word in _COUNTED_KERNELS)


def _formulas() -> dict[Any, Callable[..., int]]:
    aten = torch.ops.aten
    found: dict[Any, Callable[..., int]] = {}
    for name, products in (("", 2), ("_backward", 5)):
        operator = getattr(aten, f"_scaled_dot_product_flash_attention_for_cpu{name}", None)
        if operator is not None:
            found[operator] = _attention(products, shift=1 if name else 0)
    for name in ("_weight_int8pack_mm", "_weight_int4pack_mm_for_cpu"):
        if (operator := getattr(aten, name, None)) is not None:
            found[operator] = _packed
    found[torch.ops.quantized.linear_dynamic] = _dynamic
    return found


def _attention(products: int, shift: int) -> Callable[..., int]:
    def flop(*shapes: Any, out_shape: Any = None, **_: Any) -> int:
        # Backward takes grad_out first. Arguments are shapes, then (dropout, is_causal) as they were passed.
        query, key = shapes[shift], shapes[shift + 1]
        batch, heads, length, width = query
        causal = any(value is True for value in shapes) and length == key[-2]
        full = 2 * products * batch * heads * length * key[-2] * width
        return int(full // 2 if causal else full)

    return flop


def _dynamic(activations: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    """The packed weights are no tensor: the sizes are those of what goes in and what comes out."""
    return int(2 * math.prod(activations) * out_shape[-1])


def _packed(activations: Any, weights: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    rows, width = activations
    return int(2 * rows * width * out_shape[-1])
