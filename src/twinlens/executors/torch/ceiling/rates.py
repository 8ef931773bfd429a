"""Measured ceilings: the rates that this device sustains through torch, for a run to be compared with.

The value is the median of repeats, `high` the best (timing.py). Measure ceilings beside the run that they
judge: the memory rate of one shared host was seen to move between 33, 50 and 90 GB/s within minutes.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Sequence

import psutil
import torch

from twinlens.executors.in_process.ceiling import Ceiling, rate
from twinlens.executors.torch.ceiling.timing import (
    LAYOUTS,
    LEAST_REPEATS,
    REPEATS,
    SUSTAINED_S,
    WARM_S,
    Unsupported,
    Weight,
    board_state,
    captured,
    conditions,
    first_line,
    pattern,
    product,
    setting,
    sustained,
    timed,
    walk,
)
from twinlens.record.codec import decode, encode
from twinlens.record.estimate import Estimate
from twinlens.spec.model.shape import ModelShape, ResnetShape, VitShape
from twinlens.units import BYTES_PER_S, FLOP_PER_S

MATRIX_FORMATS = ("fp32", "tf32", "bf16", "fp16", "int8", "fp8-e4m3")


def ceilings_for(
    format: str,
    matvec_shapes: Sequence[Weight],
    gemm_shapes: Sequence[tuple[int, int, int]],
    device: str = "cpu",
    *,
    weights: str | None = None,
    layout: str | None = None,
    threads: int | None = None,
) -> dict[str, Estimate]:
    """The ceilings of one run, measured in about a second on a processor.

    `format` is what the products compute in (Precision.compute), `weights` how they are stored (default:
    the same), `layout` the weight layout of the run. Keys: copy_bytes_per_s, read_bytes_per_s,
    matvec_bytes_per_s (that layout), matvec_best_bytes_per_s (the fastest layout), matrix_flop_per_s,
    matrix_flop_per_s_at. Empty shapes give absent.
    """
    stored = weights or ("fp32" if format == "tf32" else format)
    layout = layout or LAYOUTS.get(stored, ("row",))[0]
    data = pattern(buffer_bytes(device), device)
    by_layout = {
        name: matvec_bytes_per_s(stored, matvec_shapes, name, device, threads, data)
        for name in dict.fromkeys((layout, *LAYOUTS.get(stored, ())))
    }
    burst = matrix_flop_per_s(format, device, threads, 0.25)
    rates = {"matrix_flop_per_s": burst}
    if device.startswith("cuda"):  # a cold burst runs at a clock that no run of minutes is given
        kept = sustained_flop_per_s(format, device)
        rates = {"matrix_flop_per_s": kept if kept.value else burst, "matrix_burst_flop_per_s": burst}
    return rates | {
        "copy_bytes_per_s": copy_bytes_per_s(device, threads, data),
        "read_bytes_per_s": read_bytes_per_s(device, threads, data),
        "matvec_bytes_per_s": by_layout[layout],
        "matvec_best_bytes_per_s": max(by_layout.values(), key=lambda estimate: estimate.value or 0.0),
        "matrix_flop_per_s_at": matrix_flop_per_s_at(format, gemm_shapes, device, threads, 0.3),
    }


def deciding_ceilings(format: str, device: str, *, serving: bool, threads: int | None = None) -> dict[str, Estimate]:
    """The ceilings that shares are made with, as `ceilings_for` measures them: the matrix rate, and to serve the read
    bandwidth too."""
    on_gpu = device.startswith("cuda")
    matrix = sustained_flop_per_s(format, device) if on_gpu else matrix_flop_per_s(format, device, threads, 0.25)
    read = {"read_bytes_per_s": read_bytes_per_s(device, threads)} if serving else {}
    return {"matrix_flop_per_s": matrix} | read


def all_ceilings(device: str = "cpu", threads: Sequence[int] | None = None) -> tuple[Ceiling, ...]:
    """Every ceiling of this device, for one thread and for all of torch's (default); absent ones say why.

    The matrix rates of a GPU are those that it sustains, which takes three seconds for each format.
    """
    counts = tuple(dict.fromkeys(threads or (1, torch.get_num_threads()))) if device == "cpu" else (1,)
    data = pattern(buffer_bytes(device), device)
    ceilings: list[Ceiling] = []
    for count in counts:
        ceilings.append(Ceiling("copy", "", "", count, copy_bytes_per_s(device, count, data)))
        ceilings.append(Ceiling("read", "", "", count, read_bytes_per_s(device, count, data)))
        for fmt in MATRIX_FORMATS:
            kept = sustained_flop_per_s(fmt, device) if device != "cpu" else matrix_flop_per_s(fmt, device, count)
            ceilings.append(Ceiling("matrix", fmt, "", count, kept))
        for fmt, layouts in LAYOUTS.items():
            squares = [(2048, 2048)] * max(1, data.numel() // (2048 * 2048 * 4))
            for layout in layouts:
                found_rate = matvec_bytes_per_s(fmt, squares, layout, device, count, data)
                ceilings.append(Ceiling("matvec", fmt, layout, count, found_rate))
    return tuple(ceilings)


_CUDA_BUFFER_BYTES = 2 * 2**30
_CPU_BUFFER_BYTES = 256 * 2**20
_CACHE_MULTIPLE = 4


def cache_bytes(device: str = "cpu") -> int:
    """The last-level cache: the C library's figure, the device's own on CUDA, else 32 MiB assumed."""
    if device.startswith("cuda"):
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    try:
        return os.sysconf("SC_LEVEL3_CACHE_SIZE") or 32 * 2**20
    except (ValueError, OSError):
        return 32 * 2**20


def buffer_bytes(device: str = "cpu") -> int:
    """Size of the buffers timed: four caches, at least 256 MiB (CUDA: 2 GiB), at most free / 4."""
    cuda = device.startswith("cuda")
    free = torch.cuda.mem_get_info(device)[0] if cuda else psutil.virtual_memory().available
    wanted = max(_CACHE_MULTIPLE * cache_bytes(device), _CUDA_BUFFER_BYTES if cuda else _CPU_BUFFER_BYTES)
    return min(wanted, int(free) // 4) // 4096 * 4096


def copy_bytes_per_s(device: str = "cpu", threads: int | None = None, buffer: torch.Tensor | None = None) -> Estimate:
    """Copying half a buffer to the other; bytes read and bytes written both count (STREAM's convention)."""
    data = pattern(buffer_bytes(device), device) if buffer is None else buffer
    if reason := _fits_cache(data, device):
        return Estimate.absent(BYTES_PER_S, reason, "copy")
    half = data.numel() // 2
    source, target = data[:half], data[half : 2 * half]
    with setting(threads):
        seconds = timed(lambda: target.copy_(source), device)
        method = f"copy of {half / 2**20:.0f} MiB, read and written bytes, {conditions(device)}"
    return rate(2 * half, seconds, BYTES_PER_S, method)


def read_bytes_per_s(device: str = "cpu", threads: int | None = None, buffer: torch.Tensor | None = None) -> Estimate:
    """Summing a buffer well beyond the caches, in fp32."""
    data = (pattern(buffer_bytes(device), device) if buffer is None else buffer).view(torch.float32)
    if reason := _fits_cache(data, device):
        return Estimate.absent(BYTES_PER_S, reason, "sum")
    with setting(threads):
        seconds = timed(lambda: data.sum(), device)
        method = f"sum over {data.nbytes / 2**20:.0f} MiB of fp32, {conditions(device)}"
    return rate(data.nbytes, seconds, BYTES_PER_S, method)


def matvec_bytes_per_s(
    format: str,
    shapes: Sequence[Weight],
    layout: str | None = None,
    device: str = "cpu",
    threads: int | None = None,
    buffer: torch.Tensor | None = None,
) -> Estimate:
    """Weight bytes per second of one row times each weight (out, in) in order, as one decode step walks them.

    `format` is how the weights are stored; `layout` one of LAYOUTS[format], None the first. Weights beyond
    the buffer are left out and the method says so. Give all of a model's shapes: the walk then meets the
    caches as the model does.
    """
    layout = layout or LAYOUTS.get(format, ("row",))[0]
    data = pattern(buffer_bytes(device), device) if buffer is None else buffer
    try:
        with setting(threads):
            call, size_bytes, used, kernel = walk(format, shapes, layout, data)
            seconds = timed(captured(call, device), device)
            place = conditions(device)
    except (Unsupported, RuntimeError, NotImplementedError) as error:
        return Estimate.absent(BYTES_PER_S, first_line(error), f"matrix-vector {format} {layout}")
    arithmetic = ", IEEE fp32" if format == "fp32" and device.startswith("cuda") else ""  # of a tf32 run too
    cached = "fits in" if size_bytes <= cache_bytes(device) else "exceeds"
    method = (
        f"{kernel}, one row by {used} of {len(shapes)} weights, {format} {layout}, "
        f"{size_bytes / 2**20:.0f} MiB ({cached} the last-level cache){arithmetic}, {place}"
    )
    return rate(size_bytes, seconds, BYTES_PER_S, method)


def _fits_cache(data: torch.Tensor, device: str) -> str | None:
    """Why a buffer on a GPU gives no memory rate: the card was too full for one well beyond its cache."""
    if not device.startswith("cuda") or data.nbytes >= _CACHE_MULTIPLE * cache_bytes(device):
        return None
    return f"only {data.nbytes / 2**20:.0f} MiB were free for it, and the cache holds a good part of that"


# Matrix rates: square products, products back to back, and products of a model's own shapes.

_GEMM_SIZES = (512, 1024, 2048)
_CUDA_GEMM_SIZES = (2048, 4096, 8192)
_CUDA_LEAST_SIZE = 4096  # smaller products leave most of a large GPU idle


def matrix_flop_per_s(format: str, device: str = "cpu", threads: int | None = None, budget_s: float = 0.4) -> Estimate:
    """Square products in growing sizes while the budget lasts: the median of repeats at the fastest size.

    On CUDA 4096 is always reached, and the time counts from the first product on: the library starts in that one.
    """
    best: Estimate | None = None
    seen: list[str] = []
    on_gpu = device.startswith("cuda")
    sizes = _CUDA_GEMM_SIZES if on_gpu else _GEMM_SIZES
    deadline = 0.0
    try:
        with setting(threads, format):
            place = conditions(device)
            for size in (256, *sizes):
                flop = 2.0 * size**3
                fastest = (best.value if best else None) or math.inf
                must = on_gpu and size <= _CUDA_LEAST_SIZE
                if best and not must and flop / fastest * (LEAST_REPEATS + 1) > deadline - time.perf_counter():
                    break
                call, kernel = product(format, size, size, size, device)
                seconds = timed(call, device, budget_s / 4)
                deadline = deadline or time.perf_counter() + budget_s
                measured = rate(flop, seconds, FLOP_PER_S, f"{kernel}, {size} squared, {place}")
                seen.append(f"{size}: {(measured.value or 0) / 1e9:.0f}")
                if best is None or (measured.value or 0) > (best.value or 0):
                    best = measured
    except (Unsupported, RuntimeError, NotImplementedError) as error:
        if best is None:
            return Estimate.absent(FLOP_PER_S, first_line(error), f"matrix product {format}")
    assert best is not None
    method = f"{best.method}; medians by size in GFLOP/s: {', '.join(seen)}"
    return _with_method(best, method)


def sustained_flop_per_s(format: str, device: str) -> Estimate:
    """The rate that a warm GPU sustains over two seconds of products of 8192 squared, under its own power limit."""
    size = _CUDA_GEMM_SIZES[-1]
    try:
        with setting(None, format):
            call, kernel = product(format, size, size, size, device)
            seconds = sustained(call, device)
            state = board_state(device)
    except (Unsupported, RuntimeError, NotImplementedError) as error:
        return Estimate.absent(FLOP_PER_S, first_line(error), f"matrix product {format}")
    method = f"{kernel}, {size} squared, {SUSTAINED_S:g} s back to back after {WARM_S:g} s of warming, {device}{state}"
    return rate(2.0 * size**3, seconds, FLOP_PER_S, method)


def matrix_flop_per_s_at(
    format: str,
    shapes: Sequence[tuple[int, int, int]],
    device: str = "cpu",
    threads: int | None = None,
    budget_s: float = 0.4,
) -> Estimate:
    """The rate over a model's own products (m, n, k): sum of FLOP over sum of time, per pass through them.

    Equal shapes are timed once and counted as often as they occur. Where one pass would outlast the budget,
    m is cut down alike for all shapes and the method says so.
    """
    if not shapes:
        return Estimate.absent(FLOP_PER_S, "its linear layers do not make up its FLOP", f"matrix product {format}")
    counts: dict[tuple[int, int, int], int] = {}
    for shape in shapes:
        counts[shape] = counts.get(shape, 0) + 1
    try:
        with setting(threads, format):
            probe = matrix_flop_per_s(format, device, None, budget_s / 8)
            if probe.value is None:
                return Estimate.absent(FLOP_PER_S, probe.reason or "", f"matrix product {format}")
            once = sum(2.0 * m * n * k for m, n, k in counts)
            cut = max(1.0, once / probe.value * (LEAST_REPEATS + 1) / budget_s)
            passes, kernel = _passes(format, counts, cut, device, budget_s)
            place = conditions(device)
    except (Unsupported, RuntimeError, NotImplementedError) as error:
        return Estimate.absent(FLOP_PER_S, first_line(error), f"matrix product {format}")
    flop = sum(2.0 * _cut(m, cut) * n * k * count for (m, n, k), count in counts.items())
    note = f", m cut {cut:.0f} times to fit the time allowed" if cut >= 2 else ""
    return rate(
        flop,
        passes,
        FLOP_PER_S,
        f"{kernel} over {len(shapes)} products ({len(counts)} shapes){note}, {place}",
    )


def _cut(m: int, cut: float) -> int:
    return max(1, round(m / cut))


def _passes(
    fmt: str, counts: dict[tuple[int, int, int], int], cut: float, device: str, budget_s: float
) -> tuple[list[float], str]:
    """Seconds of each pass through the shapes, each shape's time multiplied by its count."""
    passes = [0.0] * REPEATS
    kernel = ""
    for (m, n, k), count in counts.items():
        call, kernel = product(fmt, _cut(m, cut), n, k, device)
        seconds = timed(call, device, budget_s / len(counts))
        passes = [total + s * count for total, s in zip(passes, seconds, strict=False)]
    return passes, kernel


def _with_method(estimate: Estimate, method: str) -> Estimate:
    return decode(Estimate, {**encode(estimate), "method": method})


def own_shapes(
    shape: ModelShape | None, layers: Iterable[tuple[int, int]], items: int, tokens: int
) -> list[tuple[int, int, int]]:
    """(m, n, k) of each linear layer (out, in), over `items` images or sequences of `tokens` in one pass.

    A vision transformer's layers meet every patch. Empty for a convolutional network: its one linear layer does a
    thousandth of its FLOP, and a product of matrices is no ceiling of a convolution.
    """
    if isinstance(shape, ResnetShape):
        return []
    if isinstance(shape, VitShape):
        tokens = 1 + (shape.image_size // shape.patch_size) ** 2  # the class token and the patches
    rows = items * tokens
    return [(rows, out, width) for out, width in layers]
