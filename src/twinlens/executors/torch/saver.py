"""State of training written and read through torch.distributed.checkpoint, by one process or by all ranks. Needs torch.

torch keeps the index of a save as a pickle: only saves that this run wrote are ever read.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from twinlens.executors.torch.save_journal import Journal
from twinlens.record.sections import Checkpoints
from twinlens.record.step import Marks
from twinlens.spec.study import RunSpec

if TYPE_CHECKING:
    from twinlens.executors.torch.train import TorchTrainer


class _State:
    """Weights, optimizer state, and what else says how far training is (the scale of a loss in fp16), as torch's
    `Stateful`."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, scaler: Any) -> None:
        self._model, self._optimizer, self._scaler = model, optimizer, scaler

    def state_dict(self) -> dict[str, Any]:
        weights, moments = get_state_dict(self._model, self._optimizer)
        scale = {} if self._scaler is None else {"scaler": self._scaler.state_dict()}
        return {"model": weights, "optimizer": moments} | scale

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        set_state_dict(
            self._model,
            self._optimizer,
            model_state_dict=state_dict["model"],
            optim_state_dict=state_dict["optimizer"],
        )
        if self._scaler is not None:
            self._scaler.load_state_dict(state_dict["scaler"])


class Saver:
    """Saves of one process, or of this rank's part. `mode`: "sync" or "async"."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, mode: str, scaler: Any = None) -> None:
        self._state, self._mode = {"training": _State(model, optimizer, scaler)}, mode
        self._alone = not dist.is_initialized()
        if self._alone:  # torch warns at each save that one process is meant, which here it is
            warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
        # A background save exchanges messages of its own; among those of training they would be mixed up, and hang.
        self._group = None if self._alone or mode == "sync" else dist.new_group(backend="gloo")
        self._writing: Any = None
        self._durable_ns: dict[int, int] = {}

    def save(self, step: int, folder: Path, drop: Iterable[Path] = ()) -> dict[str, int]:
        """Write one, after removing older ones; begin and blocked time in ns on the monotonic clock."""
        begin_ns = time.monotonic_ns()
        self.settle()
        for each in drop:
            shutil.rmtree(each, ignore_errors=True)
        if self._mode == "sync":
            dcp.save(self._state, checkpoint_id=folder, no_dist=self._alone)
            self._durable_ns[step] = time.monotonic_ns()
        else:
            self._writing = dcp.async_save(
                self._state, checkpoint_id=folder, process_group=self._group, no_dist=self._alone
            )
            self._writing.add_done_callback(lambda _: self._durable_ns.setdefault(step, time.monotonic_ns()))
        return {"begin_ns": begin_ns, "blocked_ns": time.monotonic_ns() - begin_ns}

    @property
    def is_writing(self) -> bool:
        """Whether a save is being written beside training."""
        return self._writing is not None and not self._writing.done()

    @property
    def durable_ns(self) -> dict[int, int]:
        """When each save was on storage, by step."""
        return dict(self._durable_ns)

    def settle(self) -> None:
        """Wait for a save that is being written; raises as it failed."""
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def load(self, folder: Path) -> float:
        """Read one back into model and optimizer; seconds."""
        begin_ns = time.monotonic_ns()
        dcp.load(self._state, checkpoint_id=folder, no_dist=self._alone)
        return (time.monotonic_ns() - begin_ns) / 1e9


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
        return self._journal.read_back(done, self._saver.load, self._again)

    def close(self) -> None:
        """End what writes, and remove all saves."""
        try:
            self._saver.settle()
        finally:
            self._journal.close()

    def _again(self, step: int, count: int) -> list[float | None]:
        """Losses of `count` steps after the one that was saved, with the data they had; None of a step without one."""
        go_on_from(self._trainer, step)
        return [self._trainer.optimize(0).loss for _ in range(count)]


def go_on_from(trainer: Any, step: int) -> None:
    """Let the next batch of a trainer be that of the step after `step`."""
    trainer.batches.close()
    trainer.batches = trainer.fresh_batches()
    for _ in range(step * trainer.accumulate):
        trainer.batches.next()
