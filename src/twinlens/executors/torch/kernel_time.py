"""Kernel time by class under torch's profiler, in a run of its own: the profiler slows what it watches, so nothing of
it is timed beside a measured run. Needs torch. On processors it is tested here; no GPU has run this."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from twinlens.executors.in_process.precision_check import summed
from twinlens.executors.torch.evidence.inference import phases_of
from twinlens.executors.torch.evidence.trace import Kernel, kernels_seen
from twinlens.executors.torch.infer import TorchServer
from twinlens.executors.torch.model.build import synchronize
from twinlens.executors.torch.train import TorchTrainer
from twinlens.record.beside import Profile
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
_WARM, _MOST_WATCHED = 2, 3
_WATCHED_S = 3.0


def kernel_class(name: str) -> str:
    """The class of an operator or kernel by its name."""
    small = name.lower()
    return next((kind for kind, marks in _CLASSES if any(mark in small for mark in marks)), REST)


def time_by_class(kernels: Sequence[Kernel]) -> dict[str, float]:
    """Seconds by class, the longest first: of the GPU's own kernels where there are any, else of operators."""
    timed = [kernel for kernel in kernels if kernel.on_device] or list(kernels)
    spent = summed((kernel_class(kernel.name), kernel.self_time_s) for kernel in timed)
    return dict(sorted(spent.items(), key=lambda item: -item[1]))


def profiled(spec: RunSpec) -> Profile:
    """Seconds by class for each phase (step, or prefill and decode), after two passes that are not watched.

    Three passes are watched, or fewer where one takes long: a pass is slower when watched, and its events have to be
    read. Raises what opening the engine raises.
    """
    begin_s = time.monotonic()
    opened: TorchTrainer | TorchServer = TorchTrainer() if spec.lens == "training" else TorchServer()
    try:
        opened.open(spec, lambda phrase: None)
        if isinstance(opened, TorchTrainer):
            seen = {"step": _watched(opened.step, opened.device)}
        else:
            with opened.no_grad():
                _, timed = phases_of(opened)
                seen = {name: _watched(call, opened.device) for name, call in timed.items()}
    finally:
        opened.close()
    seconds, passes = ({name: each[place] for name, each in seen.items()} for place in (0, 1))
    return Profile(seconds, passes, _WARM, time.monotonic() - begin_s)  # type: ignore[arg-type]


def passes_of(pass_s: float) -> int:
    """How many passes are watched where one takes that long unwatched: 1 to 3."""
    return max(1, min(_MOST_WATCHED, int(_WATCHED_S / pass_s))) if pass_s > 0 else _MOST_WATCHED


def _watched(call: Callable[[], Any], device: torch.device) -> tuple[dict[str, float], int]:
    """Seconds by class in the watched passes, and how many there were."""
    for _ in range(_WARM):
        begin_s = time.monotonic()
        call()
        synchronize(device)
        pass_s = time.monotonic() - begin_s
    passes = passes_of(pass_s)
    return time_by_class(kernels_seen(lambda: [call() for _ in range(passes)], device)), passes
