"""Bytes by category, counted from the tensors themselves, on any device."""

from __future__ import annotations

import gc
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psutil
import torch
from torch import nn

from twinlens.executors.in_process.precision_check import summed
from twinlens.record.estimate import Estimate
from twinlens.record.executor.field import gpu_formats, processor_formats
from twinlens.spec.precision import BITS
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


# Formats that torch holds: of weights, state, gradients and cache; and the formats this device computes in.

FORMATS: dict[torch.dtype, str] = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float8_e4m3fn: "fp8-e4m3",
    torch.float8_e5m2: "fp8-e5m2",
    torch.int8: "int8",
    torch.qint8: "int8",
    torch.uint8: "uint8",
    torch.quint8: "uint8",
    torch.int32: "int32",
    torch.int64: "int64",
}
Resident = dict[str, dict[str, int]]
"""Tensor class to format to bytes held in it."""


def dtype_format(tensor: torch.Tensor) -> str:
    """The format a tensor really stores in; a wrapper subclass is opened, since its outer dtype is a mask."""
    if hasattr(tensor, "to_local"):  # divided over ranks
        return dtype_format(tensor.to_local())
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        inner = [getattr(tensor, name) for name in names]
        return dtype_format(max(inner, key=lambda part: part.nbytes)) if inner else str(tensor.dtype)
    if getattr(tensor, "quant_state", None) is not None:  # packed by bitsandbytes, two weights a byte
        return str(tensor.quant_type)
    return FORMATS.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))


def resident_formats(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    kv_tensors: Iterable[torch.Tensor] = (),
    *,
    has_adapter: bool = False,
) -> Resident:
    """Bytes held per format, per tensor class that can be seen now; a class that holds nothing is left out.

    `weights` are the matrix weights: those of products, not of embeddings that are only looked up, nor
    norms and biases, nor an adapter beside them. `master` are the parameters that the optimizer updates; `gradients`
    what is held when this is called.
    """
    seen = {id(p) for p in model.parameters() if p.requires_grad} if has_adapter else set[int]()
    states = [value for state in optimizer.state.values() for value in state.values()] if optimizer else []
    groups = optimizer.param_groups if optimizer else []
    held = {
        "weights": summed(each for module in model.modules() for each in _matrix_weights(module, seen)),
        "master": formats_of(each for group in groups for each in group["params"]),
        "gradients": formats_of(p.grad for p in model.parameters() if p.grad is not None),
        # step counters are scalars, not state
        "optimizer": formats_of(value for value in states if isinstance(value, torch.Tensor) and value.ndim),
        "kv": formats_of(kv_tensors),
    }
    return {name: formats for name, formats in held.items() if formats}


def formats_of(tensors: Iterable[torch.Tensor]) -> dict[str, int]:
    """Bytes by the format that they are held in."""
    return summed((dtype_format(tensor), tensor.nbytes) for tensor in tensors)


def _matrix_weights(module: nn.Module, seen: set[int]) -> list[tuple[str, int]]:
    """(format, bytes) of one module's own matrix weights, each counted once although tied."""
    if isinstance(getattr(module, "stored_format", None), str):
        return _packed_weights(module)
    if hasattr(module, "_packed_params") and callable(getattr(module, "weight", None)):
        weight = module.weight()  # torch.ao keeps its weight behind a call
        return [(dtype_format(weight), weight.numel() * weight.element_size())]
    if isinstance(module, nn.Embedding):
        return []
    weights = []
    for parameter in module.parameters(recurse=False):
        if parameter.ndim >= 2 and id(parameter) not in seen:
            seen.add(id(parameter))
            weights.append((dtype_format(parameter), parameter.nbytes))
    return weights


def _packed_weights(module: nn.Module) -> list[tuple[str, int]]:
    """A module with a `stored_format`: believed only if its integer buffers have that many bits a weight."""
    claimed = str(module.stored_format)
    buffers = [b for b in module.buffers(recurse=False) if not b.is_floating_point() and b.ndim]
    size = sum(buffer.nbytes for buffer in buffers)
    if not size:  # an fp8 weight is a floating point buffer; its scales are smaller
        tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        largest = max(tensors, key=lambda tensor: tensor.nbytes, default=None)
        return [] if largest is None else [(dtype_format(largest), largest.nbytes)]
    features = (getattr(module, "in_features", 0) or 0) * (getattr(module, "out_features", 0) or 0)
    bits = 8 * size / features if features else BITS.get(claimed, 0)
    if abs(bits - BITS.get(claimed, 0)) < 0.5:
        return [(claimed, size)]
    return [(dtype_format(max(buffers, key=lambda b: b.nbytes)), size)]


def hardware_formats(device: str = "cpu") -> dict[str, str]:
    """Format to "native" or "emulated" for matrix products on this device; unknown formats are left out."""
    if device.startswith("cuda"):
        return gpu_formats(torch.cuda.get_device_capability(device))
    if device != "cpu" or platform.machine() not in ("x86_64", "AMD64"):
        return {"fp32": "native"}
    return processor_formats(_capabilities())


def _capabilities() -> Mapping[str, Any]:
    if hasattr(torch.cpu, "get_capabilities"):
        return dict(torch.cpu.get_capabilities())
    bf16 = torch.cpu._is_avx512_bf16_supported()  # torch before 2.11 knows these few
    return {"avx512_bf16": bf16, "avx512_vnni": torch.cpu._is_vnni_supported()}
