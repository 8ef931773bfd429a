"""Counting FLOP on a real step.

PyTorch's FlopCounterMode knows no formula for CPU attention, grouped experts and packed integers and counts them 0, and
it counts causal attention in full, on a GPU too. The missing formulas stand here: attention is two products of (query,
key, head) forward and five backward (the backward recomputes the scores), half of each where the mask is causal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType
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


# FLOP and bytes of what a profiler saw, from the shapes of its operators: for models of which theory has no formula.
# Counted are products of matrices, convolutions and attention, 2 FLOP for a multiply-add; what else runs (element-wise
# operations, recurrent kernels, transforms) counts 0, so it is a lower bound. A product of a divided tensor (DTensor)
# stands in the events once with the sizes of the whole and below it with those of this rank's part: the part is what
# is computed here.

Shape = tuple[int, ...]


class ProfiledWork(NamedTuple):
    """`flop`: of the products; `most_bytes`: as if each operator read its operands from memory and wrote its result."""

    flop: float
    most_bytes: float


def profiled_work(events: Iterable[Any]) -> ProfiledWork:
    """The work of a profiler's events (torch.autograd.profiler_util.FunctionEvent), taken with shapes."""
    flop, moved = 0.0, 0.0
    for event in events:
        if event.device_type != DeviceType.CPU or not event.name.startswith("aten::"):
            continue
        shapes = [tuple(int(side) for side in shape or ()) for shape in event.input_shapes or ()]
        if _has_below(event, event.name):
            continue
        if count := _FLOP.get(event.name):
            flop += count(shapes, list(getattr(event, "concrete_inputs", None) or ()))
        elif (attention := attention_flop(event.name)) is not None:
            flop += attention(*_arguments(shapes, list(getattr(event, "concrete_inputs", None) or ())))
        if not any(child.name.startswith("aten::") for child in event.cpu_children) and event.name not in _VIEWS:
            moved += _moved(event.name, shapes, list(getattr(event, "input_dtypes", None) or ()))
    return ProfiledWork(flop, moved)


def _has_below(event: Any, name: str) -> bool:
    """Whether an operator of this name was called inside."""
    return any(child.name == name or _has_below(child, name) for child in event.cpu_children)


def _arguments(shapes: Sequence[Shape], said: Sequence[Any]) -> list[Any]:
    """Shapes of tensors and values of all else, in the operator's order."""
    return [value if value is not None else shape for shape, value in zip(shapes, said, strict=False)]


def _product(shapes: Sequence[Shape], at: int = 0) -> float:
    """(…, M, K) by (…, K, N), whose operands begin at `at`."""
    a, b = shapes[at], shapes[at + 1]
    return 2.0 * math.prod(a) * (b[-1] if len(b) > 1 else 1)


def _convolution(shapes: Sequence[Shape], said: Sequence[Any]) -> float:
    """Input (N, C, …), weight (out, C / groups, …); each output is a product over the weight's other sides."""
    data, weight, (stride, padding, dilation, transposed) = shapes[0], shapes[1], said[3:7]
    if transposed:
        return 2.0 * math.prod(data) * math.prod(weight[1:])
    sides = zip(data[2:], weight[2:], *map(_each(len(data) - 2), (stride, padding, dilation)), strict=False)
    out = [(size + 2 * pad - step * (kernel - 1) - 1) // apart + 1 for size, kernel, apart, pad, step in sides]
    return float(2 * data[0] * math.prod(out) * math.prod(weight))


def _each(count: int) -> Callable[[Sequence[int]], Sequence[int]]:
    return lambda given: list(given) * count if len(given) == 1 else given


def _convolution_backward(shapes: Sequence[Shape], said: Sequence[Any]) -> float:
    """Gradient of the output, input, weight: a product as large as the forward one for each gradient that is asked."""
    gradient, data, weight, transposed, asked = shapes[0], shapes[1], shapes[2], said[7], said[10]
    outer = data if transposed else gradient
    return 2.0 * math.prod(outer) * math.prod(weight[1:]) * sum(bool(each) for each in asked[:2])


_FLOP: dict[str, Callable[[Sequence[Shape], Sequence[Any]], float]] = {
    "aten::mm": lambda shapes, _: _product(shapes),
    "aten::bmm": lambda shapes, _: _product(shapes),
    "aten::mv": lambda shapes, _: _product(shapes),
    "aten::dot": lambda shapes, _: 2.0 * math.prod(shapes[0]),
    "aten::addmm": lambda shapes, _: _product(shapes, 1),
    "aten::addmv": lambda shapes, _: _product(shapes, 1),
    "aten::baddbmm": lambda shapes, _: _product(shapes, 1),
    "aten::_scaled_mm": lambda shapes, _: _product(shapes),
    "aten::_int_mm": lambda shapes, _: _product(shapes),
    "aten::_grouped_mm": lambda shapes, _: float(grouped_flop(shapes[0], shapes[1])),
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
}
_VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        "view", "t", "transpose", "permute", "expand", "as_strided", "slice", "select", "detach", "detach_",
        "unsqueeze", "squeeze", "reshape", "_unsafe_view", "empty", "empty_like", "empty_strided", "resize_", "alias",
        "narrow", "unbind", "split", "chunk", "item", "_local_scalar_dense", "is_nonzero", "result_type", "set_",
    )
)  # fmt: skip
_BYTES = {"double": 8, "long int": 8, "long": 8, "c10::BFloat16": 2, "c10::Half": 2, "bool": 1, "signed char": 1,
          "unsigned char": 1}  # fmt: skip


def _moved(name: str, shapes: Sequence[Shape], types: Sequence[str]) -> float:
    """Bytes of the operands, and of a result as large as that of a product, or else as the largest operand."""
    sizes = [
        math.prod(shape) * _BYTES.get(kind, 4)
        for shape, kind in zip(shapes, types, strict=False)
        if shape and not kind.startswith(("Scalar", "TensorList"))
    ]
    if not sizes:
        return 0.0
    places = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1}
    if name in places and len(shapes) > places[name] + 1:
        a, b = shapes[places[name]], shapes[places[name] + 1]
        return sum(sizes) + math.prod(a[:-1]) * b[-1] * _BYTES.get(types[places[name]], 4)
    return float(sum(sizes) + max(sizes))
