"""Timing one torch call: repeats, devices, and the setting they are timed in. Needs torch.

A rate is the median over timed repeats after one untimed call: what a kernel keeps up, not its luckiest
moment. The interval is (slowest, best) of the n repeats, which covers the median with probability 1 - 2**(1
- n) (order statistics of independent repeats); so `high` is the best rate seen.

On a GPU a repeat is as many calls as take a millisecond, since a shorter one is mostly launching; and a cold burst is
not what the board keeps up for minutes under its power limit, so `sustained` warms it by time, then times two seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import torch
from torch.nn import functional

from twinlens.executors.torch.device import fp32_as
from twinlens.executors.torch.entry import LEAST_GPU

REPEATS = 9
LEAST_REPEATS = 3
WARM_S, SUSTAINED_S = 1.0, 2.0
_LEAST_S = 1e-3  # of one repeat on a GPU


def timed(call: Call, device: str, budget_s: float = 0.1) -> list[float]:
    """Seconds of each repeat after one untimed call: 3 to 9 of them, as the budget allows."""
    call()
    seconds: list[float] = []
    while len(seconds) < REPEATS and (len(seconds) < LEAST_REPEATS or sum(seconds) < budget_s):
        seconds.append(_once(call, device))
    return seconds


def sustained(call: Call, device: str, warm_s: float = WARM_S, timed_s: float = SUSTAINED_S) -> list[float]:
    """Seconds a call takes in each of nine stretches, back to back on a GPU that is warm; nothing waits in between.

    How many calls fill a stretch is known from the warm ones: the first call of a process starts the library too, and
    may take a hundred times as long.
    """
    once_s = _warm(call, device, warm_s)
    calls = max(1, round(timed_s / REPEATS / once_s))
    marks = [_event(device)]
    for _ in range(REPEATS):
        for _ in range(calls):
            call()
        marks.append(_event(device))
    marks[-1].synchronize()
    return [float(a.elapsed_time(b)) / 1e3 / calls for a, b in pairwise(marks)]


def _warm(call: Call, device: str, warm_s: float) -> float:
    """Seconds a call takes once the board has worked for `warm_s` in stretches that double; not the first call."""
    _calls(call, device, 1)
    worked_s, calls = 0.0, 1
    while True:
        took_s = max(_calls(call, device, calls), 1e-9)
        worked_s += took_s
        if worked_s >= warm_s:
            return took_s / calls
        if took_s < warm_s / 8:
            calls *= 2


def captured(call: Call, device: str) -> Call:
    """The call as one CUDA graph: its kernels without the launching, as a captured decode runs them; else itself."""
    if not device.startswith("cuda"):
        return call
    try:
        beside = torch.cuda.Stream(device)
        beside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(beside):
            call()
        torch.cuda.current_stream(device).wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
    except RuntimeError:
        return call
    return lambda: graph.replay()


def board_state(device: str) -> str:
    """The GPU's clock and power at this moment as NVML has them, for an estimate's method; empty where it has none."""
    readings = []
    for scheduled, unit, factor in ((torch.cuda.clock_rate, "MHz", 1.0), (torch.cuda.power_draw, "W", 1e-3)):
        with suppress(Exception):  # NVML is optional, and torch raises what its bindings raise
            readings.append(f"{scheduled(torch.device(device)) * factor:.0f} {unit}")
    return f" at {', '.join(readings)}" if readings else ""


def _once(call: Call, device: str) -> float:
    if not device.startswith("cuda"):
        begin_s = time.perf_counter()
        call()
        return time.perf_counter() - begin_s
    took_s = _calls(call, device, 1)
    calls = math.ceil(_LEAST_S / max(took_s, 1e-7))
    return took_s if calls == 1 else _calls(call, device, calls) / calls


def _calls(call: Call, device: str, count: int) -> float:
    begin = _event(device)
    for _ in range(count):
        call()
    end = _event(device)
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def _event(device: str) -> Any:
    """An event on the stream of this device, whichever device is current."""
    event = torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(device))
    return event


def conditions(device: str) -> str:
    """The conditions of a measured rate, for an estimate's method."""
    count = torch.get_num_threads()
    return f"{count} thread{'s' if count > 1 else ''}" if device == "cpu" else device


def first_line(error: Exception) -> str:
    """The first line of an error, or its type where it has no message."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


@contextmanager
def setting(threads: int | None, fmt: str = "fp32") -> Iterator[None]:
    """No autograd, this many threads in an operator, and fp32 that means fp32 unless tf32 is asked for."""
    before = torch.get_num_threads()
    if threads:
        torch.set_num_threads(threads)
    try:
        with fp32_as(fmt), torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(before)


# Matrix and matrix-vector products by format, as the calls a ceiling times. Shapes: m rows, n out, k in.

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
