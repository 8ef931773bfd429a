"""Matrix rates: square products, products back to back, and products of a model's own shapes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from twinlens.executors.in_process.ceiling import rate
from twinlens.executors.torch.ceiling.kernel import Unsupported, product
from twinlens.executors.torch.ceiling.timing import (
    LEAST_REPEATS,
    REPEATS,
    SUSTAINED_S,
    WARM_S,
    board_state,
    conditions,
    first_line,
    setting,
    sustained,
    timed,
)
from twinlens.record.codec import decode, encode
from twinlens.record.estimate import Estimate
from twinlens.units import FLOP_PER_S

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
