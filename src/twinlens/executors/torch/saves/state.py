"""State of training written and read through torch.distributed.checkpoint, by one process or by all ranks. Needs torch.

torch keeps the index of a save as a pickle: only saves that this run wrote are ever read.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


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
