"""Saves of the embedded trainer, which is one process. Needs torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.executors.torch.saves.journal import COMPARED_STEPS, Journal
from twinlens.executors.torch.saves.state import Saver
from twinlens.executors.torch.saves.storage import drop_from_cache
from twinlens.record.sections import Checkpoints
from twinlens.record.step import Marks
from twinlens.spec.study import RunSpec

if TYPE_CHECKING:
    from twinlens.executors.torch.train import TorchTrainer


class OneProcessSaves:
    """Steps of a trainer with the saves that are due between them."""

    def __init__(self, spec: RunSpec, trainer: TorchTrainer) -> None:
        self._trainer, self._journal = trainer, Journal(spec)
        scaler = trainer.scaler if trainer.scaler.is_enabled() else None
        self._saver = Saver(trainer.model, trainer.optimizer, self._journal.mode, scaler)

    def step(self, step: int, origin_ns: int) -> Marks:
        """Optimizer step `step`, from 1, and the save after it."""
        self._journal.origin_ns = origin_ns
        is_writing = self._saver.is_writing
        marks = self._trainer.optimize(origin_ns)
        order = self._journal.order(step)
        saved = None if order is None else self._saver.save(step, order.folder, order.drop)
        return self._journal.took(step, marks, saved, is_writing)

    def checkpoints(self, done: int) -> Checkpoints:
        """The record, once the newest save with a step after it was read back and a few steps were done again."""
        self._saver.settle()
        self._journal.note_durable(self._saver.durable_ns)
        self._journal.note_size()
        if found := self._journal.last_whole(before=done):
            step, folder = found
            storage_s = self._saver.load(folder) if drop_from_cache(folder) else None
            cache_s = self._saver.load(folder)
            self._journal.note_restore(step, storage_s, cache_s, self._again(step, min(COMPARED_STEPS, done - step)))
        return self._journal.record()

    def close(self) -> None:
        """End what writes, and remove all saves."""
        try:
            self._saver.settle()
        finally:
            self._journal.close()

    def _again(self, step: int, count: int) -> list[float | None]:
        """Losses of `count` steps after the one that was saved, with the data they had; None of a step without one."""
        trainer = self._trainer
        trainer.batches.close()
        trainer.batches = trainer.fresh_batches()
        for _ in range(step * trainer.accumulate):
            trainer.batches.next()
        return [trainer.optimize(0).loss for _ in range(count)]
