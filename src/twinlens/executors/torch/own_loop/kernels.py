"""Kernels of one early forward and backward pass of somebody's own loop, seen by torch's profiler. Needs torch."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from twinlens.executors.torch.evidence.profiled_work import ProfiledWork, profiled_work
from twinlens.executors.torch.evidence.trace import Kernel, kernels_of

_PASS = 2  # the first is full of what happens once


class EarlyKernels:
    """Profiles the second forward and backward pass, and says in `missing` why nothing was seen."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._passes = device, 0
        self._open: Any = None
        self.seen: tuple[Kernel, ...] = ()
        self.work: ProfiledWork | None = None
        self.missing = "no second pass was seen"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be seen."""
        return self._passes > _PASS or (self._passes == _PASS and self._open is None)

    def begin_pass(self) -> bool:
        """Before a forward pass; whether this one is profiled, which slows it."""
        self.end_pass()  # of a pass whose backward was not seen
        self._passes += 1
        if self._passes != _PASS:
            return False
        if torch.autograd._profiler_enabled():
            self.missing = "the loop has a profiler of its own, and there can be only one"
            return False
        on_gpu = self._device.type == "cuda"
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
        self._open = profile(activities=activities, record_shapes=True)
        self._open.__enter__()
        return True

    def end_pass(self) -> None:
        """After a backward pass, or when the loop ends."""
        if self._open is None:
            return
        on_gpu = self._device.type == "cuda"
        if on_gpu:
            torch.cuda.synchronize(self._device)
        opened, self._open = self._open, None
        opened.__exit__(None, None, None)
        events = opened.events() or ()
        self.seen = kernels_of(events, on_gpu=on_gpu)
        with contextlib.suppress(Exception):  # an operator of another version: its shapes are then not counted
            self.work = profiled_work(events)
        self.missing = ""
