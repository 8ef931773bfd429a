"""DeepSpeed's engine in the place of torch's backward pass and update: how it is asked for, and what it holds.

Needs deepspeed, and a process group.
"""

from __future__ import annotations

import math
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from torch import nn

from twinlens.executors.protocol import Say
from twinlens.executors.torch.deepspeed.config import config_of
from twinlens.executors.torch.deepspeed.held import Held, held_by
from twinlens.executors.torch.deepspeed.options import ZeroOptions
from twinlens.executors.torch.evidence.resident import Resident
from twinlens.executors.torch.model.without_memory import fill_each
from twinlens.executors.torch.parallel.training import RankTraining
from twinlens.executors.torch.parallel.wrap import Divided
from twinlens.record.executor.facts import Estimates


def divided_by(asked: ZeroOptions, say: Say = lambda phrase: None) -> Any:
    """Divides a model as `asked`, for `RankTraining`."""

    def divide(training: RankTraining) -> Divided:
        model = _partitioned(asked, training, say) if asked.stage == 3 else training.own_copy(say)
        engine = ZeroEngine(model, asked, training)
        return Divided(model, engine.forward, dist.get_rank(), engine=engine)

    return divide


class ZeroEngine:
    """One engine and what it took over; see `Engine` in executors/torch/evidence/subject.py."""

    def __init__(self, model: nn.Module, asked: ZeroOptions, training: RankTraining) -> None:
        optimizer = torch.optim.AdamW(model.parameters(), lr=training.workload.learning_rate, fused=True)
        config = _config_of(asked, training)
        self._model = model
        self.forward, self._optimizer, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
        self._held: Held | None = None
        self.gradient_norm: float | None = None
        self.set_last(True)

    @property
    def optimizer(self) -> Any:
        """DeepSpeed's own, around torch's AdamW."""
        return self._optimizer

    def set_last(self, is_last: bool) -> None:
        self._is_last = is_last
        self.forward.set_gradient_accumulation_boundary(is_last)

    def backward(self, loss: torch.Tensor) -> None:
        """It divides the loss by the microbatches of a step itself."""
        self.forward.backward(loss)
        if not self._is_last:
            self.forward.step()

    def update(self) -> None:
        if self._held is not None:
            self._held.note_gradients()
        whole = _norm(self._model) if self.gradient_norm is None else 0.0  # of stage 0 there is none but in the weights
        self.forward.step()
        if self.gradient_norm is None:
            told = self.forward.get_global_grad_norm() if self.forward.zero_optimization_stage() else None
            self.gradient_norm = whole if told is None else float(told)

    def watch(self) -> None:
        """From here on count what is held; this costs time, so that no row is taken with it."""
        self._held = held_by(self.forward)

    def held(self) -> tuple[Estimates, Resident]:
        assert self._held is not None
        return self._held.memory(), self._held.formats()

    def stage(self) -> int:
        """The stage that really runs."""
        return int(self.forward.zero_optimization_stage())

    def is_offloaded(self) -> bool:
        """Whether the optimizer really is in the host's memory."""
        offload = self.forward.zero_offload_optimizer()
        return offload is not None and str(getattr(offload.device, "value", offload.device)) == "cpu"

    def close(self) -> None:
        """Release what it holds: DeepSpeed's own `destroy` leaves stage 3's partitions where they are."""
        self.forward.destroy()
        vars(self._optimizer).clear()


def _config_of(asked: ZeroOptions, training: RankTraining) -> dict[str, Any]:
    return config_of(asked, training.spec.point.precision, training.microbatch, training.accumulate)


def _partitioned(asked: ZeroOptions, training: RankTraining, say: Say) -> nn.Module:
    """The model in partitions of stage 3, made module by module, so that no rank ever holds it whole."""
    config = _config_of(asked, training)
    model, recipe = training.bare_model()

    def keep_part(module: nn.Module) -> None:
        deepspeed.zero.Init(module=module, config_dict_or_path=config)

    fill_each(recipe, keep_part, say)
    return model


def _norm(model: nn.Module) -> float:
    squares = (float(p.grad.float().square().sum()) for p in model.parameters() if p.grad is not None)
    return math.sqrt(sum(squares))
