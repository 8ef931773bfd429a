"""Moments on a GPU: events on its stream, so that nothing waits for them. Needs torch."""

from __future__ import annotations

import time

import torch

from twinlens.executors.own_loop.step_log import HostMoments, Moments


class StreamMoments:
    """Events on the current stream of one CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def now(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def between_ns(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> int:
        apart_ms: float = begin.elapsed_time(end)
        return round(apart_ms * 1e6)

    def is_reached(self, moment: torch.cuda.Event) -> bool:
        return bool(moment.query())

    def wait(self) -> None:
        torch.cuda.synchronize(self._device)

    def anchor(self) -> tuple[torch.cuda.Event, int]:
        self.wait()
        event = self.now()
        self.wait()
        return event, time.monotonic_ns()


def moments_of(device: torch.device) -> Moments:
    """Events for a CUDA device, the processor's clock for any other."""
    return StreamMoments(device) if device.type == "cuda" else HostMoments()
