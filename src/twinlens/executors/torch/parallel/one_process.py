"""The comparison with one process: the same steps on the whole model, and whether losses and gradients are the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from twinlens.executors.torch.parallel.profiled import profiled_step
from twinlens.executors.torch.parallel.training import RankTraining


def alone(training: RankTraining, steps: int) -> dict[str, Any]:
    """Losses of the first steps of one process, and the norm of its first gradient; on rank 0, while others wait."""
    told: dict[str, Any] = {}
    if dist.get_rank() == 0:
        model, batches = training.whole_model(), training.all_batches()
        optimizer = torch.optim.AdamW(model.parameters(), lr=training.workload.learning_rate, fused=True)
        losses = []
        for step in range(steps):
            total = 0.0
            for _ in range(training.accumulate):
                loss = training.loss_of(model, *batches.next())
                (loss / training.accumulate).backward()
                total += float(loss.detach()) / training.accumulate
            if step == 0:
                told["gradient_norm"] = _norm(model)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(total)
        told["losses"] = losses
        batches.close()
    dist.barrier()
    return told


def together(training: RankTraining, steps: int) -> dict[str, Any]:
    """The same of all ranks: this rank's losses, and one step more under the profiler. Weights, optimizer and batches
    are as before afterwards."""
    told: dict[str, Any] = {}
    parameters = list(training.model.parameters())
    saved = [parameter.detach().clone() for parameter in parameters]
    training.batches = training.fresh_batches()
    if (buckets := training.divided.buckets) is not None:
        buckets.sent_bytes = 0
    with _first_gradient(training, told):
        losses = [training.step()["loss"] for _ in range(steps)]
        told["losses"] = [loss for loss in losses if loss is not None]  # of a pipeline, the last rank alone has any
    if buckets is not None:
        told["exchanged_bytes"] = buckets.sent_bytes / steps
        told["gradients_bytes"] = sum(each.nbytes for each in parameters if each.requires_grad)
        told["microbatches"] = training.accumulate
    told["profiled"] = profiled_step(training)
    with torch.no_grad():
        for parameter, before in zip(parameters, saved, strict=True):
            parameter.copy_(before)
    training.optimizer.state.clear()
    training.batches = training.fresh_batches()
    return told


@contextmanager
def _first_gradient(training: RankTraining, told: dict[str, Any]) -> Iterator[None]:
    """Notes the norm of all gradients before the first update."""

    def note(*_: Any) -> None:
        if "gradient_norm" not in told:
            norm = _norm if training.divided.pipeline is None else _norm_of_stages
            told["gradient_norm"] = norm(training.model)

    handle = training.optimizer.register_step_pre_hook(note)
    try:
        yield
    finally:
        handle.remove()


def _norm(model: nn.Module) -> float:
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
    squared = torch.tensor(_norm(model) ** 2, dtype=torch.float64, device=next(model.parameters()).device)
    dist.all_reduce(squared)
    return math.sqrt(float(squared))
