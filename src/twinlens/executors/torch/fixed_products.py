"""Products of fixed matrices on every device that torch sees, as bytes: for whoever compares them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch

from twinlens.executors.torch.device import fp32_as

_FORMATS = (("fp32", torch.float32), ("bf16", torch.bfloat16))
Product = Callable[[], bytes]


def products(
    inputs: Callable[[int], tuple[np.ndarray, np.ndarray]], sizes: Mapping[str, int], threads: int
) -> Iterator[tuple[str, str, Product]]:
    """(device, format, product) for the processor, "cpu", and every GPU, "gpu:UUID" as NVML has it.

    `inputs` gives the two square matrices of a size, `sizes` that of "cpu" and of "cuda". fp32 is fp32 (no TF32).
    """
    torch.set_num_threads(threads)
    with fp32_as("fp32"):
        for place, name in ("cpu", "cpu"), *_gpus():
            left, right = map(torch.from_numpy, inputs(sizes[place.partition(":")[0]]))
            for format, kind in _FORMATS:
                yield name, format, _product(left.to(place, kind), right.to(place, kind))


def _gpus() -> Iterator[tuple[str, str]]:
    for index in range(torch.cuda.device_count()):
        yield f"cuda:{index}", f"gpu:GPU-{torch.cuda.get_device_properties(index).uuid}"


def _product(left: torch.Tensor, right: torch.Tensor) -> Product:
    return lambda: bytes((left @ right).float().cpu().numpy().tobytes())
