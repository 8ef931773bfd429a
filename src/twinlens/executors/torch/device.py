"""The device that a run uses, and the reason why a device that is present cannot be used."""

from __future__ import annotations

import torch

from twinlens.errors import BadInput
from twinlens.spec.asked_device import AskedDevice
from twinlens.system.gpu_driver import driver_version, why_withheld


def choose_device(asked: AskedDevice) -> torch.device:
    """ "auto" is the first CUDA device that torch can use, or the CPU. Makes a CUDA device the current one.

    Events, streams and allocations that name no device belong to the current one: left at GPU 0, a run on GPU 1 would
    time an idle board. Raises BadInput (TL208) for a device that is not here or cannot be used.
    """
    if asked.kind == "auto":
        return torch.device("cpu") if why_no_gpu() or not torch.cuda.is_available() else _current(0)
    if asked.kind == "cpu":
        return torch.device("cpu")
    index = asked.index or 0
    if reason := why_no_gpu(index):
        raise BadInput(f"executor.device is '{asked}' but {reason}", code="TL208")
    if not torch.cuda.is_available() or index >= torch.cuda.device_count():
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        sentence = f"executor.device is '{asked}' but torch sees {count} CUDA devices; use cpu or auto"
        raise BadInput(sentence, code="TL208")
    return _current(index)


def why_no_gpu(index: int = 0) -> str | None:
    """Why torch cannot use the GPU that is here, with the remedy; None where it can, or where there is none."""
    build = f"torch {torch.__version__}"
    if hip := getattr(torch.version, "hip", None):
        return f"this torch is built for AMD GPUs (ROCm {hip}), which are not supported; use cpu"
    if not torch.cuda.is_available():
        if not (driver := driver_version()):
            return None
        if withheld := why_withheld():
            return withheld
        if torch.version.cuda is None:
            return f"{build} is built without CUDA (the NVIDIA driver here is {driver}); install a CUDA build of torch"
        return (
            f"{build} (CUDA {torch.version.cuda}) cannot use the GPU under the NVIDIA driver {driver}; "
            "install a newer driver, or a torch built for an older CUDA"
        )
    if index < torch.cuda.device_count() and not _has_kernels(index):
        major, minor = torch.cuda.get_device_capability(index)
        return (
            f"{build} (CUDA {torch.version.cuda}) has no kernels for {torch.cuda.get_device_name(index)} "
            f"(compute capability {major}.{minor}); install a torch built for an older CUDA"
        )
    return None


def auto_note(asked: AskedDevice) -> str | None:
    """The finding where "auto" took the CPU although there is a GPU."""
    reason = why_no_gpu() if asked.kind == "auto" else None
    return f"This run is on the CPU: {reason}." if reason else None


def _current(index: int) -> torch.device:
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def _has_kernels(index: int) -> bool:
    """Whether this build brings machine code for the board's generation, or intermediate code it can translate."""
    major, minor = torch.cuda.get_device_capability(index)
    for arch in torch.cuda.get_arch_list():
        kind, _, digits = arch.partition("_")
        plain = "".join(c for c in digits if c.isdigit())
        if not plain:
            continue
        built = (int(plain[:-1]), int(plain[-1]))
        same = kind == "sm" and built[0] == major and built[1] <= minor
        if same or (kind == "compute" and built <= (major, minor)):
            return True
    return not torch.cuda.get_arch_list()
