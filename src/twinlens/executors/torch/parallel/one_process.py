"""The comparison with one process: the same steps on the whole model, and whether losses and gradients are the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from twinlens.executors.protocol import Say
from twinlens.executors.torch.parallel.exchange import profiled_step
from twinlens.executors.torch.parallel.training import RankTraining


def alone(training: RankTraining, steps: int, say: Say) -> dict[str, Any]:
    """Losses of the first steps of one process, and the norm of its first gradient; on rank 0.

    It takes the rows of all ranks one rank's share at a time, as it has the memory of one. The others wait at each
    share, so that nobody waits for long without a sign of life.
    """
    told: dict[str, Any] = {}
    whole = _Whole(training) if dist.get_rank() == 0 else None
    dist.barrier()
    losses = []
    for step in range(steps):
        for share in range(training.accumulate * training.asked.data):
            say(f"comparing with one process: step {step + 1} of {steps}")
            if whole is not None:
                whole.take(share)
            dist.barrier()
        if whole is not None:
            if step == 0:
                told["gradient_norm"] = gradient_norm(whole.model)
            losses.append(whole.update())
    if whole is not None:
        whole.batches.close()
        told["losses"] = losses
    return told


class _Whole:
    """The whole model in one process, and its optimizer."""

    def __init__(self, training: RankTraining) -> None:
        self._training = training
        self.model, self.batches = training.whole_model(), training.all_batches()
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=training.workload.learning_rate, fused=True)
        self._shares: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._loss = 0.0

    def take(self, share: int) -> None:
        """One rank's rows of a global microbatch."""
        training, parts = self._training, self._training.accumulate * self._training.asked.data
        if share % training.asked.data == 0:
            split = (part.split(training.microbatch) for part in self.batches.next())
            self._shares = list(zip(*split, strict=True))
        loss = training.loss_of(self.model, *self._shares[share % training.asked.data]) / parts
        loss.backward()
        self._loss += float(loss.detach())

    def update(self) -> float:
        """The optimizer's step; the loss that it was of."""
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        loss, self._loss = self._loss, 0.0
        return loss


def together(training: RankTraining, steps: int, say: Say) -> dict[str, Any]:
    """The same of all ranks: this rank's losses. Weights, optimizer and batches are as before afterwards."""
    told: dict[str, Any] = {}
    parameters = list(training.model.parameters())
    saved = [parameter.detach().clone() for parameter in parameters]
    training.batches.close()
    training.batches = training.fresh_batches()
    losses = []
    with _first_gradient(training, told):
        for step in range(steps):
            say(f"comparing with one process: step {step + 1} of {steps} of all ranks")
            losses.append(training.step()["loss"])
    told["losses"] = [loss for loss in losses if loss is not None]  # of a pipeline, the last rank alone has any
    with torch.no_grad():
        for parameter, before in zip(parameters, saved, strict=True):
            parameter.copy_(before)
    _begin_again(training)
    return told


def looked_at(training: RankTraining) -> dict[str, Any]:
    """What one step exchanges, and how long that is under way: at a learning rate of 0, so that no weight changes."""
    told: dict[str, Any] = {}
    buckets, groups = training.divided.buckets, training.optimizer.param_groups
    rates = [group["lr"] for group in groups]
    for group in groups:
        group["lr"] = 0.0
    if buckets is not None:
        buckets.sent_bytes = 0
    told["profiled"] = profiled_step(training)
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = rate
    if buckets is not None:
        told["exchanged_bytes"] = float(buckets.sent_bytes)
        told["gradients_bytes"] = sum(each.nbytes for each in training.model.parameters() if each.requires_grad)
        told["microbatches"] = training.accumulate
    _begin_again(training)
    return told


def _begin_again(training: RankTraining) -> None:
    training.optimizer.state.clear()
    training.batches.close()
    training.batches = training.fresh_batches()


@contextmanager
def _first_gradient(training: RankTraining, told: dict[str, Any]) -> Iterator[None]:
    """Notes the norm of all gradients before the first update."""

    def note(*_: Any) -> None:
        if "gradient_norm" not in told:
            norm = gradient_norm if training.divided.pipeline is None else _norm_of_stages
            told["gradient_norm"] = norm(training.model)

    handle = training.optimizer.register_step_pre_hook(note)
    try:
        yield
    finally:
        handle.remove()


def gradient_norm(model: nn.Module) -> float:
    """The norm over all gradients of a model, gathered where torch has divided them."""
    squares = 0.0
    for parameter in model.parameters():
        if (gradient := parameter.grad) is None:
            continue
        whole = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
        squares += float(whole.float().square().sum())
    return math.sqrt(squares)


def _norm_of_stages(model: nn.Module) -> float:
    """The same of a model whose parts lie on all ranks, none of them twice."""
    squared = torch.tensor(gradient_norm(model) ** 2, dtype=torch.float64, device=next(model.parameters()).device)
    dist.all_reduce(squared)
    return math.sqrt(float(squared))
