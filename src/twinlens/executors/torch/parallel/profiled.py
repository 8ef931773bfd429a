"""One call under torch's profiler: its collectives, and how long they are under way while nothing computes.

A profiled step is slower than others, so it is none of the rows. Needs torch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function

from twinlens.executors.torch.model.build import synchronize
from twinlens.executors.torch.parallel.spans import Span, covered, outside
from twinlens.executors.torch.parallel.training import RankTraining

_BACKENDS = ("gloo:", "nccl:")
_NCCL_KERNEL = re.compile(r"nccl\w*Kernel")
"""ncclKernel_… until 2.18, ncclDevKernel_… since, and ncclSymkDevKernel_… of symmetric memory."""
_COPIES = ("Memcpy", "Memset")
_BEGIN = "twinlens: all ranks are here"


@dataclass(frozen=True, slots=True)
class Overlap:
    """What one call did: collectives by name, and when (in seconds on one clock) any was under way and anything
    computed. On a GPU both are of its kernels alone: an annotation there is a name for some of them, and no work."""

    collectives: dict[str, int]
    flights: tuple[Span, ...]
    work: tuple[Span, ...]

    @property
    def flight_s(self) -> float:
        return covered(self.flights)

    @property
    def exposed_s(self) -> float:
        """Time under way with no computation beside it."""
        return outside(self.flights, self.work)


def profiled_step(training: RankTraining) -> dict[str, Any]:
    """Collectives of one step by name, and seconds in which they are under way, alone or beside an operator.

    Empty in a pipeline, where a transfer is under way from when a rank begins to wait for its neighbour.
    """
    if training.divided.pipeline is not None:
        return {}
    seen = overlap_of(training.step, training.device)
    return {"collectives": seen.collectives, "flight_s": seen.flight_s, "exposed_s": seen.exposed_s}


def overlap_of(call: Callable[[], Any], device: torch.device) -> Overlap:
    """Profile one call that all ranks begin together: a profiler starts in seconds here and at once there."""
    on_gpu = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as trace:
        dist.barrier()
        synchronize(device)
        with record_function(_BEGIN):
            call()
        synchronize(device)
    return overlap_in(trace.events(), on_gpu=on_gpu)


def overlap_in(events: Iterable[Any], *, on_gpu: bool) -> Overlap:
    """The same from the profiler's events (torch.autograd.profiler_util.FunctionEvent). Pure."""
    known = list(events)
    from_us = min((each.time_range.start for each in known if each.name == _BEGIN), default=float("-inf"))
    collectives: Counter[str] = Counter()
    flights: list[Span] = []
    work: list[Span] = []
    for event in known:
        if event.time_range.start < from_us:
            continue
        of_device = event.device_type != torch.autograd.DeviceType.CPU
        if not of_device and event.name.startswith(_BACKENDS):
            collectives[event.name.partition(":")[2]] += 1
        if of_device != on_gpu or (of_device and event.is_user_annotation):
            continue
        span = event.time_range.start / 1e6, event.time_range.end / 1e6
        if _NCCL_KERNEL.match(event.name) if on_gpu else event.name.startswith(_BACKENDS):
            flights.append(span)
        elif not event.name.startswith(_COPIES) if on_gpu else event.name.startswith("aten::"):
            work.append(span)
    return Overlap(dict(collectives), tuple(sorted(flights)), tuple(work))
