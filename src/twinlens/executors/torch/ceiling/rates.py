"""Measured ceilings: the rates that this device sustains through torch, for a run to be compared with.

The value is the median of repeats, `high` the best (timing.py). Measure ceilings beside the run that they
judge: the memory rate of one shared host was seen to move between 33, 50 and 90 GB/s within minutes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from twinlens.executors.in_process.ceiling import Ceiling
from twinlens.executors.torch.ceiling.bandwidth import (
    buffer_bytes,
    copy_bytes_per_s,
    matvec_bytes_per_s,
    read_bytes_per_s,
)
from twinlens.executors.torch.ceiling.kernel import LAYOUTS, Weight, pattern
from twinlens.executors.torch.ceiling.matrix import matrix_flop_per_s, matrix_flop_per_s_at, sustained_flop_per_s
from twinlens.record.estimate import Estimate

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
