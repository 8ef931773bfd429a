"""Matrix and matrix-vector products by format, as the calls a ceiling times. Shapes: m rows, n out, k in.

Needs torch; loaded only by torch_ceiling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from twinlens.executors.torch.options import LEAST_GPU

DTYPES: dict[str, torch.dtype] = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8-e4m3": torch.float8_e4m3fn,
    "int8": torch.int8,
}
LAYOUTS: dict[str, tuple[str, ...]] = {
    "fp32": ("row", "column"),
    "bf16": ("row", "column"),
    "fp16": ("row", "column"),
    "fp8-e4m3": ("row",),
    "int8": ("packed", "dynamic"),
    "int4": ("packed",),
}
"""Weight layouts a matrix-vector product is measured in, the one most models use first."""
_INT4_GROUP = 32
_PATTERN = 0x3C  # repeated bytes that are an ordinary number in every format: no denormals, no overflow, no zeros

Call = Callable[[], Any]
Weight = tuple[int, int] | tuple[int, int, str]
"""(out, in), or (out, in, the format it is stored in)."""


class Unsupported(Exception):
    """This device does not do this product; the message says why."""


def pattern(size_bytes: int, device: str) -> torch.Tensor:
    """A touched uint8 buffer [size_bytes] whose bytes read as ordinary numbers in every format."""
    word = int.from_bytes(bytes([_PATTERN] * 4), "little")
    return torch.full((size_bytes // 4,), word, dtype=torch.int32, device=device).view(torch.uint8)


def product(fmt: str, m: int, n: int, k: int, device: str) -> tuple[Call, str]:
    """A call that multiplies [m, k] by a transposed weight [n, k], and its kernel. Raises Unsupported."""
    reason = unsupported_product(fmt, device)
    if reason:
        raise Unsupported(reason)
    if fmt == "int8":
        return _int8_product(m, n, k, device)
    if fmt == "fp8-e4m3":
        x, w = (_operand(rows, k, torch.bfloat16, device).to(DTYPES[fmt]) for rows in (m, n))
        return _scaled(x, w)
    x, w = (_operand(rows, k, DTYPES[fmt], device) for rows in (m, n))
    return lambda: functional.linear(x, w), f"functional.linear {fmt}"


def unsupported_product(fmt: str, device: str) -> str | None:
    """Why there is no matrix product in this format on this device, or None."""
    if fmt not in DTYPES:
        return f"no matrix kernel computes in {fmt} here: it is a storage format"
    if least := LEAST_GPU.get(fmt.removesuffix("-e4m3")):
        if not device.startswith("cuda"):
            return f"{fmt} products need an NVIDIA GPU"
        if torch.cuda.get_device_capability(device) < least:
            return f"{fmt} products need compute capability {least[0]}.{least[1]}"
    return None


def _operand(rows: int, columns: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    if device == "cpu":  # constant data are free to make, and a processor's rate does not depend on them
        return torch.full((rows, columns), 0.0115, dtype=dtype)
    return torch.randn(rows, columns, device=device, dtype=dtype)  # a GPU's power, so its clock, does


def _int8_product(m: int, n: int, k: int, device: str) -> tuple[Call, str]:
    x, w = (torch.randint(-127, 127, (rows, k), dtype=torch.int8, device=device) for rows in (m, n))
    return lambda: torch._int_mm(x, w.t()), "torch._int_mm"


def walk(fmt: str, shapes: Sequence[Weight], layout: str, buffer: torch.Tensor) -> tuple[Call, int, int, str]:
    """A call that multiplies one row by each weight (out, in) in order, as one decode step does.

    A weight with a format of its own, (out, in, format), is multiplied in that: a head that was left wider. Returns
    the call, the weight bytes it reads, how many of `shapes` fit in `buffer` (uint8), and the kernels' names. Raises
    Unsupported.
    """
    if layout not in LAYOUTS.get(fmt, ()):
        known = ", ".join(LAYOUTS.get(fmt, ())) or "none"
        raise Unsupported(f"no {layout} matrix-vector kernel for {fmt}; known: {known}")
    make = {"row": _row, "column": _column, "packed": _packed, "dynamic": _dynamic}
    calls: list[Call] = []
    offset, weight_bytes, kernels = 0, 0, list[str]()
    for rows, columns, *own in shapes:
        stored = own[0] if own and own[0] in LAYOUTS else fmt
        size = rows * columns // 2 if stored == "int4" else rows * columns * DTYPES[stored].itemsize
        if offset + size > buffer.numel():
            break
        place = layout if layout in LAYOUTS[stored] else LAYOUTS[stored][0]
        call, kernel = make[place](stored, buffer[offset : offset + size], rows, columns)
        calls.append(call)
        kernels.append(kernel)
        weight_bytes += size
        offset += -(-size // 64) * 64  # each weight starts on a cache line, as an allocator would place it
    if not calls:
        raise Unsupported("no weight fits in the memory allowed")
    kernel = " and ".join(dict.fromkeys(kernels))

    def step() -> None:
        for call in calls:
            call()

    return step, weight_bytes, len(calls), kernel


def _row(fmt: str, data: torch.Tensor, rows: int, columns: int) -> tuple[Call, str]:
    weight = data.view(DTYPES[fmt]).view(rows, columns)
    if fmt == "fp8-e4m3":
        reason = unsupported_product(fmt, str(data.device))
        if reason:
            raise Unsupported(reason)
        return _scaled(torch.ones(1, columns, device=data.device).to(DTYPES[fmt]), weight)
    x = torch.ones(1, columns, dtype=DTYPES[fmt], device=data.device)
    return lambda: functional.linear(x, weight), "functional.linear"


def _scaled(x: torch.Tensor, weight: torch.Tensor) -> tuple[Call, str]:
    """With a scale for each row and plain accumulation, as the run's own fp8 layers: per tensor is another kernel."""
    rows = torch.ones(x.shape[0], 1, device=x.device)
    columns = torch.ones(1, weight.shape[0], device=x.device)
    call = lambda: torch._scaled_mm(x, weight.t(), rows, columns, out_dtype=torch.bfloat16)  # noqa: E731
    return call, "torch._scaled_mm, a scale per row"


def _column(fmt: str, data: torch.Tensor, rows: int, columns: int) -> tuple[Call, str]:
    weight = data.view(DTYPES[fmt]).view(columns, rows).t()
    x = torch.ones(1, columns, dtype=DTYPES[fmt], device=data.device)
    return lambda: functional.linear(x, weight), "functional.linear, transposed storage"


def _packed(fmt: str, data: torch.Tensor, rows: int, columns: int) -> tuple[Call, str]:
    x = torch.ones(1, columns, dtype=torch.bfloat16, device=data.device)
    if fmt == "int8":
        weight = data.view(torch.int8).view(rows, columns)
        scales = torch.ones(rows, dtype=torch.bfloat16, device=data.device)
        return lambda: torch._weight_int8pack_mm(x, weight, scales), "torch._weight_int8pack_mm"
    if data.device.type != "cpu":
        raise Unsupported("the int4 kernel measured here runs on processors only")
    packed = data.view(rows, columns // 2)
    pairs = torch.ones(columns // _INT4_GROUP, rows, 2, dtype=torch.bfloat16)
    kernel = torch.ops.aten._weight_int4pack_mm_for_cpu
    return lambda: kernel(x, packed, _INT4_GROUP, pairs), "_weight_int4pack_mm_for_cpu"


def _dynamic(fmt: str, data: torch.Tensor, rows: int, columns: int) -> tuple[Call, str]:
    if data.device.type != "cpu":
        raise Unsupported("dynamically quantised linear runs on processors only")
    integers = data.view(torch.int8).view(rows, columns)
    weight = torch._make_per_tensor_quantized_tensor(integers, 0.01, 0)
    packed = torch.ops.quantized.linear_prepack(weight, None)
    x = torch.ones(1, columns)
    return lambda: torch.ops.quantized.linear_dynamic(x, packed, False), "quantized::linear_dynamic"
