"""One rank's part of saves: written after a step, read back, and the place in the data found again. Needs torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch.distributed as dist

from twinlens.executors.torch.parallel.training import RankTraining
from twinlens.executors.torch.saves.state import Saver


class RankSaves:
    """Made by all ranks in the same order: the process group of background saves is."""

    def __init__(self, training: RankTraining, mode: str) -> None:
        self._training, self._saver = training, Saver(training.model, training.optimizer, mode)

    def step(self, order: dict[str, Any]) -> dict[str, Any]:
        """A step, and the save that the order may ask for after it."""
        is_writing = self._saver.is_writing
        told = self._training.step() | {"is_writing": is_writing}
        if "save" in order:
            drop = [Path(each) for each in order["drop"]] if dist.get_rank() == 0 else []
            told["saved"] = self._saver.save(order["step"], Path(order["save"]), drop)
        return told | {"durable_ns": self._saver.durable_ns}

    def settle(self) -> dict[int, int]:
        """Wait for what is being written; when each save was on storage, by step."""
        self._saver.settle()
        return self._saver.durable_ns

    def load(self, folder: str) -> float:
        """Seconds."""
        return self._saver.load(Path(folder))

    def go_on_from(self, step: int) -> None:
        """Let the next batch be that of the step after `step`."""
        self._training.batches.close()
        self._training.batches = self._training.fresh_batches()
        for _ in range(step * self._training.accumulate):
            self._training.batches.next()
