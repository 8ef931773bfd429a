"""Bytes by category, counted from the tensors themselves, on any device."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import torch
from torch import nn

from twinlens.record.estimate import Estimate
from twinlens.units import BYTES


def bytes_of(tensors: list[torch.Tensor], method: str) -> Estimate:
    """Bytes of the distinct storages behind some tensors (tied weights once)."""
    return Estimate(float(sum(_storages(tensors).values())), BYTES, method, "measured", n=1)


def elements_of(parameter: torch.Tensor) -> int:
    """Elements of a whole parameter. ZeRO stage 3 leaves an empty tensor in its place while it is not used, and the
    number in `ds_numel`."""
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def state_memory(
    model: nn.Module, optimizer: torch.optim.Optimizer, *, has_adapter: bool = False
) -> dict[str, Estimate]:
    """Weights, gradients and optimizer state as they are resident now; an adapter apart from the weights below it."""
    parameters = list(model.parameters())
    adapter = [p for p in parameters if p.requires_grad] if has_adapter else []
    weights = [p for p in parameters if not (has_adapter and p.requires_grad)]
    apart = {"adapter_bytes": bytes_of([*adapter], "resident parameters that are trained")} if has_adapter else {}
    state = [v for entry in optimizer.state.values() for v in entry.values() if isinstance(v, torch.Tensor)]
    return {
        "weights_bytes": bytes_of(
            [*weights, *scales_of(weights), *model.buffers()], "resident parameters, scales and buffers"
        ),
        "gradients_bytes": bytes_of([p.grad for p in parameters if p.grad is not None], "resident gradients"),
        "optimizer_bytes": bytes_of(state, "resident optimizer state"),
    } | apart


def scales_of(parameters: list[nn.Parameter]) -> list[torch.Tensor]:
    """Scales and code tables that bitsandbytes keeps beside each packed weight; none of other weights."""
    states = [found for p in parameters if (found := getattr(p, "quant_state", None)) is not None]
    states += [state.state2 for state in states if state.nested]
    return [tensor for state in states for tensor in (state.absmax, state.code)]


def forget_peak(device: torch.device) -> None:
    """Give back what building and evidence took, and count the peak from here: that of the rows."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def device_memory(device: torch.device) -> dict[str, int] | None:
    """Bytes the allocator gave out and held at most since `forget_peak`; None on a CPU, which has no such count."""
    if device.type != "cuda":
        return None
    return {
        "allocated_peak_bytes": int(torch.cuda.max_memory_allocated(device)),
        "reserved_peak_bytes": int(torch.cuda.max_memory_reserved(device)),
    }


def free_bytes(device: torch.device) -> int:
    """Bytes that can still be allocated on the device: of the GPU's own memory, or of this machine's."""
    return int(torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available)


@contextmanager
def saved_activations(model: nn.Module) -> Iterator[dict[int, int]]:
    """Collects storage → bytes of what the forward pass saves for the backward pass, weights not counted; where a
    sharded model gathers them for a layer, neither those."""
    weights = set(_storages([*model.parameters(), *model.buffers()]))
    is_fsdp, is_zero = (
        hasattr(model, "set_requires_gradient_sync"),
        hasattr(next(model.parameters(), None), "ds_tensor"),
    )
    gathers = is_fsdp or is_zero  # DeepSpeed's stage 3
    saved: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        held = weights | set(_storages(list(model.parameters()))) if gathers else weights
        saved.update({storage: size for storage, size in _storages([tensor]).items() if storage not in held})
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield saved


def _storages(tensors: list[torch.Tensor]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for tensor in tensors:
        storage = _own(tensor).untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
    return sizes


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a divided tensor; of one that is still being exchanged, where it will be."""
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local.elem if hasattr(local, "elem") else local
