"""Counting FLOP on a real step.

PyTorch's FlopCounterMode knows no formula for CPU attention, grouped experts and packed integers and counts them 0, and
it counts causal attention in full, on a GPU too. The missing formulas stand here: attention is two products of (query,
key, head) forward and five backward (the backward recomputes the scores), half of each where the mask is causal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

_ATTENTION_KERNELS = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")


def counted_flop(call: Callable[[], Any]) -> int:
    """FLOP of one call, matrix products, convolutions and attention counted; 2 per multiply-add."""
    with FlopCounterMode(display=False, custom_mapping=_formulas()) as counter:
        call()
    return int(counter.get_total_flops())


def _formulas() -> dict[Any, Callable[..., int]]:
    aten = torch.ops.aten
    formulas: dict[Any, Callable[..., int]] = {}
    for kernel in _ATTENTION_KERNELS:
        for name, shift in (("", 0), ("_backward", 1)):  # a backward operator takes the gradient of its output first
            if (operator := getattr(aten, f"_scaled_dot_product_{kernel}{name}", None)) is not None:
                formulas[operator] = _attention(operator, shift)
    for name in ("_weight_int8pack_mm", "_weight_int4pack_mm_for_cpu"):
        if (operator := getattr(aten, name, None)) is not None:
            formulas[operator] = _packed
    for name in ("_grouped_mm", "_scaled_grouped_mm"):
        if (operator := getattr(aten, name, None)) is not None:
            formulas[operator] = grouped_flop
    for name, passes in (("grouped_mm_fallback", 1), ("grouped_mm_fallback_backward", 2)):
        if (operator := getattr(getattr(torch.ops, "transformers", None), name, None)) is not None:
            formulas[operator] = _grouped_times(passes)
    if (operator := getattr(torch.ops.bitsandbytes, "gemm_4bit", None)) is not None:
        formulas[operator] = _four_bits
    formulas[torch.ops.quantized.linear_dynamic] = _dynamic
    return formulas


def attention_flop(name: str) -> Callable[..., int] | None:
    """FLOP of an attention operator by its name ("aten::…"), from shapes in its own order; None for another."""
    kernel = name.removeprefix("aten::_scaled_dot_product_").removesuffix("_backward")
    operator = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
    if kernel not in _ATTENTION_KERNELS or operator is None:
        return None
    return _attention(operator, int(name.endswith("_backward")))


def _attention(operator: Any, shift: int) -> Callable[..., int]:
    names = [argument.name for argument in operator.default._schema.arguments]
    place = names.index("is_causal")

    def flop(*shapes: Any, out_shape: Any = None, is_causal: bool = False, **_: Any) -> int:
        (batch, heads, length, width), key, value = shapes[shift : shift + 3]
        pairs = batch * heads * length * key[-2]
        # Forward: scores and weighted values. Backward: the scores again, and the gradients of all three and of them.
        sides = 3 * width + 2 * value[-1] if shift else width + value[-1]
        causal = (is_causal or (len(shapes) > place and shapes[place] is True)) and length == key[-2]
        return int(2 * pairs * sides // 2 if causal else 2 * pairs * sides)

    return flop


def grouped_flop(a: Any, b: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    """Rows sorted by expert times each expert's matrix, and the two products of its backward pass.

    (T, K) by (E, K, N) is 2·T·K·N; (M, T) by (T, N), one (M, N) for each expert, 2·M·T·N; (E, M, K) by (K, T) 2·M·K·T.
    """
    if len(a) == 3 and len(b) == 2:
        return int(2 * a[1] * a[2] * b[1])
    return int(2 * math.prod(a) * b[-1])


def _grouped_times(passes: int) -> Callable[..., int]:
    return lambda a, b, *_, **__: passes * grouped_flop(a, b)


def _dynamic(activations: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    """The packed weights are no tensor: the sizes are those of what goes in and what comes out."""
    return int(2 * math.prod(activations) * out_shape[-1])


def _four_bits(activations: Any, packed: Any, whole: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    """A product that makes its packed weights whole first; `whole`: their own (out, in)."""
    return int(2 * math.prod(activations) * whole[0])


def _packed(activations: Any, weights: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    rows, width = activations
    return int(2 * rows * width * out_shape[-1])
