"""The NVML board that CUDA calls by a number, and the free memory of the roomiest."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from twinlens.executors.launch.gpus import uuids_in_cudas_order
from twinlens.executors.launch.recipe import MASK, gpu_environment
from twinlens.spec.asked_device import AskedDevice
from twinlens.system.nvml import Gpu, open_gpus


def board_of(device: AskedDevice, gpus: Sequence[Gpu], environment: Mapping[str, str] = os.environ) -> Gpu | None:
    """The device that CUDA will call `device` ("cuda", "auto": the first), through the mask of this process.

    None where that is not known: CUDA numbers mixed boards by speed, NVML by bus address, and a board cut into MIG
    slices has as many devices as it has slices.
    """
    entry = gpu_environment(AskedDevice("cuda", device.index or 0), environment)[MASK]
    known = uuids_in_cudas_order(gpus, environment)
    if entry.isdigit():
        return gpus[int(entry)] if int(entry) < len(known) else None
    return next(iter(open_gpus([entry])[0]), None)


def gpu_free_bytes() -> float | None:
    """Free memory of the GPU that has most of it, or None where NVML sees none."""
    memories = [gpu.ask("nvmlDeviceGetMemoryInfo") for gpu in open_gpus()[0]]
    return max((float(memory.free) for memory in memories if memory is not None), default=None)
