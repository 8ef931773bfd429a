"""The part of each batch that one data rank has, of batches that every rank draws whole."""

from __future__ import annotations

import torch

from twinlens.executors.torch.model.data import Batches


class ShareOfBatches:
    """The rows of each global microbatch that one data rank has: every rank draws the same, and takes its own."""

    def __init__(self, batches: Batches, rows: int, rank: int) -> None:
        self._batches, self._mine = batches, slice(rank * rows, (rank + 1) * rows)
        self.how = f"{batches.how}, each rank drawing the whole batch"
        self.entropy_rate_nats = batches.entropy_rate_nats

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, targets = self._batches.next()
        return inputs[self._mine], targets[self._mine]

    def held_out(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, targets = self._batches.held_out(index)
        return inputs[self._mine], targets[self._mine]

    def close(self) -> None:
        self._batches.close()
