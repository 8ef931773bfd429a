"""GPUs that the driver shows and torch cannot use: said with versions and a way out, never passed over in silence."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.executors.launch.recipe import MASK, visible_gpus
from twinlens.executors.refuse import refuse_shared_gpu
from twinlens.executors.registry import capabilities
from twinlens.measurement.machine.nvidia import board_of
from twinlens.spec.device import AskedDevice
from twinlens.spec.study import RunSpec
from twinlens.system.gpu_driver import driver_version, why_withheld
from twinlens.system.nvml import Gpu, has_nvml, open_gpus

_DRIVERS = {
    11: "450.80",
    12: "525.60",
    13: "580.65",
}  # the oldest for each CUDA generation, CUDA release notes, table 2


def refuse_unusable_gpu(spec: RunSpec) -> None:
    """Raises BadInput (TL208) for a word that is no device, and for a GPU that is not here or cannot be used.

    Whether it is here is known where the driver counts its GPUs, and where torch is built for none; else whoever opens
    the device says it.
    """
    if "device" not in capabilities(spec.executor.kind).settings or not spec.device.names_gpu:
        return
    gpus, _ = open_gpus()
    _refuse_beyond_last(spec.device, gpus)
    if not _needs_torch_for_gpu(spec):
        return
    if not gpus and torch_cuda() == "":
        raise BadInput(
            f"executor.device is '{spec.device}' but torch sees 0 CUDA devices, and is built without "
            "CUDA; use cpu or auto",
            code="TL208",
        )
    why = why_unusable(gpus, torch_cuda()) if gpus else None
    if why:
        raise BadInput(f"executor.device is '{spec.device}', and {_counted(gpus)} are here, but {why}", code="TL208")


def _refuse_beyond_last(device: AskedDevice, gpus: Sequence[Gpu], environment: Mapping[str, str] = os.environ) -> None:
    """A server that is given the number of a GPU that is not there may compute on the processor without a word."""
    shown = _shown(gpus, environment)
    if gpus and device.index is not None and device.index >= shown:
        few = "1 GPU is" if shown == 1 else f"{shown} GPUs are"
        raise BadInput(
            f"executor.device is '{device}', and {few} here, numbered from 0; take one of them, or auto", code="TL208"
        )


def refuse_too_few_gpus(spec: RunSpec, ranks: int) -> None:
    """Raises BadInput (TL208) where the ranks of a run would share a GPU, as they say themselves when they are opened.

    Ranks on a cluster have its GPUs, which are not counted here.
    """
    is_here = not spec.executor.options.get("on") and uses_gpu(spec.device)
    refuse_shared_gpu(spec.device, ranks, _shown(open_gpus()[0]) if is_here else 0)


def _shown(gpus: Sequence[Gpu], environment: Mapping[str, str] = os.environ) -> int:
    """How many of the driver's GPUs the mask shows."""
    return len(visible_gpus(environment)) if gpus and MASK in environment else len(gpus)


def _needs_torch_for_gpu(spec: RunSpec) -> bool:
    return capabilities(spec.executor.kind).computes_with == "torch"


def uses_gpu(device: AskedDevice) -> bool:
    """Whether torch, asked for this device, computes on a GPU, as far as can be said without importing it.

    Without NVML the driver's files say whether there is one.
    """
    if device.kind != "auto":
        return device.names_gpu
    gpus, _ = open_gpus()
    cuda = torch_cuda()
    if not cuda or (MASK in os.environ and not visible_gpus(os.environ)):
        return False
    if gpus:
        return why_unusable(gpus, cuda) is None
    return not has_nvml() and driver_version() is not None and why_withheld() is None


def refuse_lacking_precision(spec: RunSpec) -> None:
    """Raises BadInput (TL203) for a precision that the device of the embedded engine is known to lack."""
    needs = capabilities(spec.executor.kind).least_gpu.get(spec.point.precision)
    if needs is None:
        return
    capability: tuple[int, int] | None = (0, 0)
    if uses_gpu(spec.device):
        board = board_of(spec.device, open_gpus()[0])
        capability = board.ask("nvmlDeviceGetCudaComputeCapability") if board is not None else None
    if capability is not None and capability < needs:
        here = "the CPU" if capability == (0, 0) else f"a GPU of compute capability {capability[0]}.{capability[1]}"
        raise BadInput(
            f"precision {spec.point.precision!r} needs an NVIDIA GPU of compute capability {needs[0]}.{needs[1]} or "
            f"later; this is {here}",
            code="TL203",
        )


def why_unusable(gpus: Sequence[Gpu], cuda: str | None) -> str | None:
    """Why torch, built for CUDA `cuda` ("13.0"; "" for none, None where torch is not here), cannot use these boards.

    A driver runs what was built for its own CUDA generation or an older one (CUDA's minor version compatibility).
    """
    if cuda is None:
        return None
    if not cuda:
        return "this torch is built without CUDA; install one that is built with it"
    version = gpus[0].ask_system("nvmlSystemGetCudaDriverVersion_v2")
    driver = gpus[0].ask_system("nvmlSystemGetDriverVersion")
    built = int(cuda.partition(".")[0])
    if version is None or int(version) // 1000 >= built:
        return None
    has = f"{version // 1000}.{version % 1000 // 10}"
    needs = f" to {_DRIVERS[built]} or later" if built in _DRIVERS else ""
    return (
        f"the driver ({driver}, CUDA {has}) is too old for this torch (CUDA {cuda}): update the driver{needs}, or "
        f"install a torch built for CUDA {version // 1000}"
    )


def torch_cuda() -> str | None:
    """The CUDA version that torch here is built for, "" for none, None without torch; read without importing it."""
    try:
        text = Path(str(distribution("torch").locate_file("torch/version.py"))).read_text(encoding="utf-8")
    except (PackageNotFoundError, OSError):
        return None
    match = re.search(r"^cuda\b[^=]*= *['\"]([0-9.]+)['\"]", text, re.MULTILINE)
    return match[1] if match else ""


def _counted(gpus: Sequence[Gpu]) -> str:
    name = gpus[0].ask("nvmlDeviceGetName") or "a GPU"
    return f"{len(gpus)} × {name}"
