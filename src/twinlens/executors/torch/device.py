"""The device that a run uses, and the reason why a device that is present cannot be used."""

from __future__ import annotations

import ctypes
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch

from twinlens.errors import BadInput
from twinlens.spec.device import AskedDevice
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


# The meaning of fp32 for matrix products, convolutions and recurrences: IEEE fp32, or tf32 where it was asked for.
# torch keeps this twice, in flags of before 2.9 and in `fp32_precision` since, and raises where the two disagree:
# reading `torch.get_float32_matmul_precision()`, as its compiler does, fails once only one was written. So both are
# written.

_NEWER = ("cuda.matmul", "cudnn.conv", "cudnn.rnn")


def set_fp32(precision: str) -> None:
    """Make fp32 tf32 for the precision "tf32", and IEEE fp32 for every other one. cuDNN's own default is tf32."""
    _set(precision == "tf32", precision == "tf32")


@contextmanager
def fp32_as(precision: str) -> Iterator[None]:
    """The same for as long as the block lasts; then as it was."""
    before = _state()
    set_fp32(precision)
    try:
        yield
    finally:
        _set(*before)


def fp32_settings() -> dict[str, str]:
    """The meaning of fp32 now, by where it is used: "ieee", "tf32", or "none" (torch's default: ieee for products)."""
    settings = {name: _read(name) for name in (*_NEWER, "mkldnn.matmul")}
    if settings["cuda.matmul"] is None:  # torch before 2.9
        older = {"cuda.matmul": torch.backends.cuda.matmul.allow_tf32, "cudnn.conv": torch.backends.cudnn.allow_tf32}
        return {name: "tf32" if on else "ieee" for name, on in older.items()}
    return {name: value for name, value in settings.items() if value is not None}


def _set(products: bool, convolutions: bool) -> None:
    torch.set_float32_matmul_precision("high" if products else "highest")
    torch.backends.cudnn.allow_tf32 = convolutions
    for name in _NEWER:
        part = _part(name)
        if hasattr(part, "fp32_precision"):
            part.fp32_precision = "tf32" if (products if name == "cuda.matmul" else convolutions) else "ieee"


def _state() -> tuple[bool, bool]:
    settings = fp32_settings()
    return settings["cuda.matmul"] == "tf32", settings["cudnn.conv"] == "tf32"


def _read(name: str) -> str | None:
    return getattr(_part(name), "fp32_precision", None)


def _part(name: str) -> object:
    part: object = torch.backends
    for step in name.split("."):
        part = getattr(part, step, None)
    return part


def mark(device: torch.device) -> Any:
    """This moment on `device`: nanoseconds on a processor; on a GPU when its stream gets here, known after a wait."""
    if device.type != "cuda":
        return time.monotonic_ns()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between_ns(begin: Any, end: Any) -> int:
    """Nanoseconds from one mark to a later one of the same device; a GPU's marks must have been reached."""
    return int(end - begin) if isinstance(begin, int) else round(begin.elapsed_time(end) * 1e6)


def phases_of(marks: Sequence[Any]) -> dict[str, int]:
    """Nanoseconds of a step's phases. Marks: at its beginning, after data, forward and backward of each microbatch, and
    after the optimizer."""
    spent_ns = [between_ns(a, b) for a, b in pairwise(marks)]
    of_microbatches = {name: sum(spent_ns[place:-1:3]) for place, name in enumerate(("data", "forward", "backward"))}
    return {f"{name}_ns": spent for name, spent in (of_microbatches | {"optimize": spent_ns[-1]}).items()}


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # malloc.h of glibc
_NEVER = -1  # read as the greatest size


def keep_freed_memory() -> None:
    """Have glibc's malloc hold on to what is freed: no mapping of its own for a large block, nothing given back.

    By default it maps a block of over 32 MiB afresh each time, and the kernel clears every page of it again. How many
    blocks that concerns differs from process to process. Raises BadInput (TL207) where there is no glibc.
    """
    if platform.libc_ver()[0] != "glibc":
        raise BadInput('executor.options.freed_memory = "kept" needs glibc (Linux); leave it out', code="TL207")
    library = ctypes.CDLL(None)
    if not (library.mallopt(_MMAP_MAX, 0) and library.mallopt(_TRIM_THRESHOLD, _NEVER)):
        raise BadInput('glibc refused executor.options.freed_memory = "kept"; leave it out', code="TL207")
