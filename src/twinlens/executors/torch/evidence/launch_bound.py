"""A GPU that mostly waits for the processor which gives it its work."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twinlens.executors.torch.evidence.facts import Kernel
from twinlens.executors.torch.evidence.subject import OpenServer
from twinlens.executors.torch.model.build import synchronize
from twinlens.record.finding import Finding

_LEAST_BUSY = 0.5  # share of a phase that kernels take; below it the GPU mostly waits for work


def find_launch_bound(
    server: OpenServer, timed: Mapping[str, Callable[[], Any]], kernels: Mapping[str, Sequence[Kernel]]
) -> Finding | None:
    """The finding where a GPU mostly waits for the processor that gives it its work."""
    name = list(timed)[-1]
    busy_s = sum(kernel.self_time_s for kernel in kernels[name] if kernel.on_device)
    if server.device.type != "cuda" or not busy_s:
        return None
    took = []
    with server.no_grad():
        for _ in range(5):
            synchronize(server.device)
            begin_s = time.perf_counter()
            timed[name]()
            synchronize(server.device)
            took.append(time.perf_counter() - begin_s)
    return launch_bound(name, busy_s, min(took))


def launch_bound(phase: str, busy_s: float, took_s: float) -> Finding | None:
    """The finding, where kernels take less than half of the time a phase takes."""
    if busy_s >= _LEAST_BUSY * took_s:
        return None
    return Finding("launch-bound", "notes", phase, {"took_s": took_s, "busy_s": busy_s})
