"""Batches drawn ahead in a thread, into pinned memory: what a training loop on a GPU does, whose data must not wait.

On a processor nothing is drawn ahead: the thread would take its time from the step itself.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import torch

Pair = tuple[torch.Tensor, torch.Tensor]
_AHEAD = 2


class Ahead:
    """Calls `draw` in a thread and hands out what it gave, in order, on `device`. Errors come out of `next`."""

    def __init__(self, draw: Callable[[], Pair], device: torch.device) -> None:
        self._draw, self._device = draw, device
        self._drawn: queue.Queue[Pair | BaseException] = queue.Queue(_AHEAD)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def next(self) -> Pair:
        if self._thread is None:  # not before the first row: evidence draws nothing from here
            self._thread = threading.Thread(target=self._run, name="twinlens batches", daemon=True)
            self._thread.start()
        drawn = self._drawn.get()
        if isinstance(drawn, BaseException):
            raise drawn
        inputs, targets = drawn
        return inputs.to(self._device, non_blocking=True), targets.to(self._device, non_blocking=True)

    def close(self) -> None:
        """End the thread; it may be in the middle of a draw, which it finishes."""
        self._over.set()
        while self._thread is not None and self._thread.is_alive():
            try:
                self._drawn.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                inputs, targets = self._draw()
                self._drawn.put((_pinned(inputs, self._device), _pinned(targets, self._device)))
        except BaseException as error:
            self._drawn.put(error)


def _pinned(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    return tensor.contiguous().pin_memory() if device.type == "cuda" else tensor
