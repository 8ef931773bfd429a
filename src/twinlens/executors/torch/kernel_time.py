"""Kernel time by class under torch's profiler, in a run of its own: the profiler slows what it watches, so nothing of
it is timed beside a measured run. Needs torch. On processors it is tested here; no GPU has run this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twinlens.executors.torch.evidence.inference import phases_of
from twinlens.executors.torch.evidence.trace import Kernel, kernels_seen
from twinlens.executors.torch.infer import TorchServer
from twinlens.executors.torch.train import TorchTrainer
from twinlens.spec.study import RunSpec

_CLASSES = (
    ("communication", ("nccl", "gloo", "c10d", "all_reduce", "all_gather", "reduce_scatter")),
    ("attention", ("scaled_dot_product", "flash", "fmha", "bmm", "attention")),
    ("optimizer", ("adam", "foreach", "multi_tensor", "sgd")),
    ("matrix products", ("mm", "mv", "linear", "conv", "gemm", "cutlass", "xmma", "nvjet", "gemv")),
    ("normalisation", ("norm", "welford")),
    ("copies", ("copy", "aten::cat", "clone", "memcpy", "memset", "index", "embedding", "gather", "contiguous")),
)
"""Marks in names of operators and GPU kernels; the first that fits decides, and the rest is element-wise."""
REST = "element-wise and other"
_WARM, _WATCHED = 2, 3


def kernel_class(name: str) -> str:
    """The class of an operator or kernel by its name."""
    small = name.lower()
    return next((kind for kind, marks in _CLASSES if any(mark in small for mark in marks)), REST)


def time_by_class(kernels: Sequence[Kernel]) -> dict[str, float]:
    """Seconds by class, the longest first: of the GPU's own kernels where there are any, else of operators."""
    timed = [kernel for kernel in kernels if kernel.on_device] or list(kernels)
    spent: dict[str, float] = {}
    for kernel in timed:
        kind = kernel_class(kernel.name)
        spent[kind] = spent.get(kind, 0.0) + kernel.self_time_s
    return dict(sorted(spent.items(), key=lambda item: -item[1]))


def profiled(spec: RunSpec) -> dict[str, dict[str, float]]:
    """Seconds by class for each phase (step, or prefill and decode) of three passes after two that are not watched.

    Raises what opening the engine raises.
    """
    opened: TorchTrainer | TorchServer = TorchTrainer() if spec.lens == "training" else TorchServer()
    try:
        opened.open(spec, lambda phrase: None)
        if isinstance(opened, TorchTrainer):
            return {"step": _watched(opened.step, opened.device)}
        with opened.no_grad():
            _, timed = phases_of(opened)
            return {name: _watched(call, opened.device) for name, call in timed.items()}
    finally:
        opened.close()


def _watched(call: Callable[[], Any], device: Any) -> dict[str, float]:
    for _ in range(_WARM):
        call()
    return time_by_class(kernels_seen(lambda: [call() for _ in range(_WATCHED)], device))
