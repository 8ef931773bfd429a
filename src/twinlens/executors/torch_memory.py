"""Bytes by category, counted from the tensors themselves, on any device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from twinlens.record.estimate import Estimate
from twinlens.units import BYTES


def bytes_of(tensors: list[torch.Tensor], method: str) -> Estimate:
    """Bytes of the distinct storages behind some tensors (tied weights once)."""
    return Estimate(float(sum(_storages(tensors).values())), BYTES, method, "measured", n=1)


def state_memory(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Estimate]:
    """Weights, gradients and optimizer state as they are resident now."""
    parameters = list(model.parameters())
    state = [v for entry in optimizer.state.values() for v in entry.values() if isinstance(v, torch.Tensor)]
    return {
        "weights_bytes": bytes_of([*parameters, *model.buffers()], "resident parameters and buffers"),
        "gradients_bytes": bytes_of([p.grad for p in parameters if p.grad is not None], "resident gradients"),
        "optimizer_bytes": bytes_of(state, "resident optimizer state"),
    }


@contextmanager
def saved_activations(model: nn.Module) -> Iterator[dict[int, int]]:
    """Collects storage → bytes of what the forward pass saves for the backward pass, weights not counted."""
    parameters = set(_storages([*model.parameters(), *model.buffers()]))
    saved: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.update(_storages([tensor]))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield saved
    for storage in parameters & set(saved):
        del saved[storage]


def _storages(tensors: list[torch.Tensor]) -> dict[int, int]:
    found: dict[int, int] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
    return found
