"""Moments within a step: the processor's clock, or on a GPU events on its stream, so that nothing waits for them."""

from __future__ import annotations

import time
from typing import Any

import torch


def mark(device: torch.device) -> Any:
    """This moment on `device`: nanoseconds on a processor; on a GPU when its stream gets here, known after a wait."""
    if device.type != "cuda":
        return time.monotonic_ns()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between_ns(begin: Any, end: Any) -> int:
    """Nanoseconds from one mark to a later one of the same device; a GPU's marks must have been reached."""
    return int(end - begin) if isinstance(begin, int) else round(begin.elapsed_time(end) * 1e6)
