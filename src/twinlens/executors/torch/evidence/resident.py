"""Formats that torch holds: of weights, state, gradients and cache; and the formats this device computes in.

Needs torch.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from twinlens.record.executor.field import gpu_formats, processor_formats
from twinlens.spec.precision import BITS

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
    held: Resident = {"weights": {}, "master": {}, "gradients": {}, "optimizer": {}, "kv": {}}
    seen = {id(p) for p in model.parameters() if p.requires_grad} if has_adapter else set[int]()
    for module in model.modules():
        for name, size in _matrix_weights(module, seen):
            held["weights"][name] = held["weights"].get(name, 0) + size
    for parameter in model.parameters():
        if parameter.grad is not None:
            _add(held["gradients"], parameter.grad)
    for group in optimizer.param_groups if optimizer else ():
        for parameter in group["params"]:
            _add(held["master"], parameter)
    for state in optimizer.state.values() if optimizer else ():
        for value in state.values():
            if isinstance(value, torch.Tensor) and value.ndim:  # step counters are scalars, not state
                _add(held["optimizer"], value)
    for tensor in kv_tensors:
        _add(held["kv"], tensor)
    return {name: formats for name, formats in held.items() if formats}


def _add(formats: dict[str, int], tensor: torch.Tensor) -> None:
    name = dtype_format(tensor)
    formats[name] = formats.get(name, 0) + tensor.nbytes


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
