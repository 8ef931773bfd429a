"""Facts of torch: version, build, threads, code path and numeric settings. Needs torch.

The front of four files: what is held stands in resident.py, what ran in trace.py, the comparison in check.py.
"""

from __future__ import annotations

import platform
import shutil
from typing import Any

import torch

from twinlens.executors.torch.evidence.check import check_phases, check_precision
from twinlens.executors.torch.evidence.resident import Resident, dtype_format, hardware_formats, resident_formats
from twinlens.executors.torch.evidence.trace import (
    Kernel,
    compute_formats,
    kernels_seen,
    longest,
    observed_compute_format,
)
from twinlens.executors.torch.fp32 import fp32_settings
from twinlens.record.executor.record import Fact, observed, unknown

__all__ = [
    "Kernel",
    "Resident",
    "check_phases",
    "check_precision",
    "compute_formats",
    "dtype_format",
    "framework_facts",
    "hardware_formats",
    "kernels_seen",
    "longest",
    "observed_compute_format",
    "resident_formats",
]


def framework_facts() -> dict[str, Fact]:
    """Everything torch says about itself now, by field id."""
    key = "software.framework."
    facts = {
        key + "name": observed("torch", "torch"),
        key + "version": observed(str(torch.__version__), "torch.__version__"),
        key + "commit": _known(torch.version.git_version, "torch.version.git_version"),
        key + "debug": observed(bool(torch.version.debug), "torch.version.debug"),
        key + "build": observed(_build(), "torch.__config__.show"),
        key + "parallel_backend": observed(_parallel_backend(), "torch.__config__.parallel_info"),
        key + "threads": observed(torch.get_num_threads(), "torch.get_num_threads"),
        key + "interop_threads": observed(torch.get_num_interop_threads(), "torch.get_num_interop_threads"),
        key + "cpu_capability": observed(
            torch.backends.cpu.get_cpu_capability(), "torch.backends.cpu.get_cpu_capability"
        ),
        key + "deterministic": observed(_deterministic(), "torch.are_deterministic_algorithms_enabled, cudnn"),
        key + "matmul_precision": observed(_matmul_precision(), "torch.backends"),
        key + "onednn": _library("MKL-DNN", torch.backends.mkldnn.is_available()),
        key + "mkl": _library("Math Kernel Library", torch.backends.mkl.is_available()),
        key + "compile_available": observed(_can_compile(), "torch.compiler, C++ compiler"),
    }
    return facts | _cuda_facts()


def _cuda_facts() -> dict[str, Fact]:
    if torch.version.cuda is None:
        reason = unknown("this torch build has no CUDA")
        return {"software.toolkit.version": reason, "software.framework.cudnn": reason}
    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    return {
        "software.toolkit.version": observed(f"CUDA {torch.version.cuda}", "torch.version.cuda"),
        "software.framework.cudnn": _known(cudnn, "torch.backends.cudnn.version"),
    }


def _known(value: Any, source: str) -> Fact:
    return unknown(f"{source} gives nothing") if value is None else observed(value, source)


def _build() -> dict[str, str]:
    """The flags that decide speed, from the build settings line."""
    wanted = (
        "BLAS_INFO",
        "BUILD_TYPE",
        "LAPACK_INFO",
        "USE_CUDA",
        "USE_ROCM",
        "USE_MKL",
        "USE_MKLDNN",
        "USE_OPENMP",
    )
    line = next((part for part in torch.__config__.show().splitlines() if "Build settings" in part), "")
    pairs = (part.strip().partition("=") for part in line.partition(":")[2].split(","))
    return {name: value for name, _, value in pairs if name in wanted}


def _parallel_backend() -> str:
    lines = torch.__config__.parallel_info().splitlines()
    backend = next((line for line in lines if "parallel backend" in line), ": not said")
    return backend.partition(":")[2].strip()


def _library(name: str, available: bool) -> Fact:
    if not available:
        return observed("not available", f"torch.backends, {name}")
    line = next((part for part in torch.__config__.show().splitlines() if name in part), "")
    return observed(line.strip(" -") or "available", "torch.__config__.show")


def _deterministic() -> dict[str, bool]:
    return {
        "algorithms": torch.are_deterministic_algorithms_enabled(),
        "cudnn": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
    }


def _matmul_precision() -> dict[str, Any]:
    """The meaning of fp32 for products, convolutions and recurrences, and where 16-bit sums may be kept in 16 bits."""
    settings: dict[str, Any] = dict(fp32_settings())
    for dtype in ("bf16", "fp16"):
        flag = f"allow_{dtype}_reduced_precision_reduction"
        settings[f"cuda_{dtype}_reduced_reduction"] = getattr(torch.backends.cuda.matmul, flag, None)
    return {name: value if isinstance(value, bool | str) else str(value) for name, value in settings.items()}


def _can_compile() -> bool:
    """Whether torch.compile has what it needs on this machine: a C++ compiler, or CUDA."""
    has_compiler = any(shutil.which(name) for name in ("c++", "g++", "clang++")) or torch.cuda.is_available()
    return has_compiler and platform.system() in ("Linux", "Darwin")
