"""Memory rates: copying, reading, and weights read by products with one row."""

from __future__ import annotations

import os
from collections.abc import Sequence

import psutil
import torch

from twinlens.executors.in_process.ceiling import rate
from twinlens.executors.torch.ceiling.kernel import LAYOUTS, Unsupported, Weight, pattern, walk
from twinlens.executors.torch.ceiling.timing import (
    captured,
    conditions,
    first_line,
    setting,
    timed,
)
from twinlens.record.estimate import Estimate
from twinlens.units import BYTES_PER_S

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
