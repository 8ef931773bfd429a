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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import torch

from twinlens.executors.torch.ceiling.kernel import Call
from twinlens.executors.torch.device import fp32_as

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
