"""One step under torch's profiler: which collectives it has, and how long they are under way while nothing computes.

A profiled step is slower than others, so it is none of the rows. Needs torch.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from twinlens.executors.torch.parallel.spans import Span, covered, outside
from twinlens.executors.torch.parallel.training import RankTraining

_BACKENDS = ("gloo:", "nccl:")


def profiled_step(training: RankTraining) -> dict[str, Any]:
    """Collectives of one step by name, and seconds in which they are under way, alone or beside an operator.

    Empty in a pipeline, where a transfer is under way from when a rank begins to wait for its neighbour.
    """
    if training.divided.pipeline is not None:
        return {}
    on_gpu = training.device.type == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as trace:
        training.step()
    collectives: Counter[str] = Counter()
    flights: list[Span] = []
    work: list[Span] = []
    for event in trace.events():
        span = event.time_range.start / 1e6, event.time_range.end / 1e6
        is_of_device = event.device_type != torch.autograd.DeviceType.CPU
        if event.name.startswith(_BACKENDS) and not is_of_device:
            collectives[event.name.partition(":")[2]] += 1
        if is_of_device == on_gpu and _is_exchange(event.name):
            flights.append(span)
        elif is_of_device == on_gpu and (on_gpu or event.name.startswith("aten::")):
            work.append(span)
    return {"collectives": dict(collectives), "flight_s": covered(flights), "exposed_s": outside(flights, work)}


def _is_exchange(name: str) -> bool:
    """A collective of a backend on the processor, or its kernel on a GPU."""
    return name.startswith(_BACKENDS) or "ncclDevKernel" in name
