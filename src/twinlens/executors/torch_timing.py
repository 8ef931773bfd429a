"""Timing one torch call: repeats, devices, and the setting they are timed in. Needs torch.

A rate is the median over timed repeats after one untimed call: what a kernel keeps up, not its luckiest
moment. The interval is (slowest, best) of the n repeats, which covers the median with probability 1 - 2**(1
- n) (order statistics of independent repeats); so `high` is the best rate seen.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from twinlens.executors.torch_fp32 import fp32_as
from twinlens.executors.torch_kernel import Call
from twinlens.record.estimate import Estimate

REPEATS = 9
LEAST_REPEATS = 3


def timed(call: Call, device: str, budget_s: float = 0.1) -> list[float]:
    """Seconds of each repeat after one untimed call: 3 to 9 of them, as the budget allows."""
    call()
    seconds: list[float] = []
    while len(seconds) < REPEATS and (len(seconds) < LEAST_REPEATS or sum(seconds) < budget_s):
        seconds.append(_once(call, device))
    return seconds


def _once(call: Call, device: str) -> float:
    if device.startswith("cuda"):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3
    begin_s = time.perf_counter()
    call()
    if device.startswith("mps"):
        torch.mps.synchronize()
    return time.perf_counter() - begin_s


def rate(amount: float, seconds: Sequence[float], unit: str, method: str) -> Estimate:
    """Amount per second as an estimate: median, slowest and best of the repeats."""
    rates = sorted(amount / s for s in seconds)
    level = 1.0 - 2.0 ** (1 - len(rates)) if len(rates) > 1 else None
    return Estimate(statistics.median(rates), unit, method, "measured", rates[0], rates[-1], level, len(rates))


def where(device: str) -> str:
    """What the rate was measured on, for an estimate's method."""
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
