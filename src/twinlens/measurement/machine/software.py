"""Software that is installed and loaded: packages and their source, mapped libraries, environment."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from twinlens.executors.launch.options import is_secret
from twinlens.record.executor.record import Fact, observed, unknown
from twinlens.record.foreign_text import without_paths

PACKAGES = (
    *("torch", "transformers", "numpy", "safetensors", "tokenizers", "torchao", "triton", "accelerate"),
    *("flash-attn", "xformers", "vllm", "onnxruntime", "openvino", "nvidia-ml-py", "psutil", "twinlens"),
)
ENVIRONMENT = re.compile(
    r"(OMP_|MKL_|KMP_|GOMP_|OPENBLAS_|BLIS_|VECLIB_|CUDA_|CUBLAS_|CUDNN_|NCCL_|TORCH|PYTORCH_|ATEN_|ONEDNN|DNNL_|MALLOC_"
    r"|VLLM_|SGLANG_|SGL_|TRITON_|FLASHINFER_|TRTLLM_|TLLM_|GGML_|LLAMA_|NVIDIA_|TF32_|TOKENIZERS_"
    r"|GLIBC_TUNABLES|LD_PRELOAD|DYLD_INSERT|HF_HUB_OFFLINE|XLA_|ROCM_|HIP_|HSA_).*"
)
_LIBRARIES = {
    "mkl": r"libmkl",
    "onednn": r"libdnnl|libmkldnn",
    "openblas": r"openblas",
    "openmp": r"libgomp|libiomp|libomp[.-]",
    "cudart": r"libcudart",
    "cudnn": r"libcudnn",
    "cublas": r"libcublas[.-]",
    "cublaslt": r"libcublasLt",
    "nccl": r"libnccl",
    "nvml": r"libnvidia-ml",
    "jemalloc": r"jemalloc",
    "tcmalloc": r"tcmalloc",
    "torch": r"libtorch_c(pu|uda)\.",
}


def software_facts(maps: Path = Path("/proc/self/maps")) -> dict[str, Fact]:
    """Python, packages, environment and libraries. Call it after a first run: libraries load when used."""
    packages, source = _installed(tuple(sys.path))
    return {
        "software.python.version": observed(platform.python_version(), "platform"),
        "software.python.implementation": observed(platform.python_implementation(), "platform"),
        "software.packages": observed(dict(packages), "importlib.metadata"),
        "software.framework.source": unknown("torch is not installed")
        if source is None
        else observed(source, "importlib.metadata"),
        "software.environment": observed(performance_environment(os.environ), "os.environ"),
        "software.libraries": loaded_libraries([maps], "/proc/self/maps"),
    }


def _distribution(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


@lru_cache(maxsize=4)
def _installed(paths: tuple[str, ...]) -> tuple[tuple[tuple[str, str], ...], str | None]:
    """Versions by name, and the source of torch, on these paths: what is loaded keeps them while this process lives."""
    torch = _distribution("torch")
    versions = tuple((name, text) for name in PACKAGES if (text := package(name)))
    return versions, None if torch is None else wheel_source(torch)


def package(name: str) -> str | None:
    """The version installed, or None."""
    distribution = _distribution(name)
    return None if distribution is None else distribution.version


def wheel_source(distribution: Distribution) -> str:
    """Where a package came from: its build label, installer and address, as far as its metadata says."""
    parts = [f"build {distribution.version.partition('+')[2]}"] if "+" in distribution.version else ["build unlabelled"]
    installer = (distribution.read_text("INSTALLER") or "").strip()
    parts.append(f"installed by {installer}" if installer else "installer not said")
    direct = distribution.read_text("direct_url.json")
    if direct:
        url = str(json.loads(direct).get("url", ""))
        parts.append("from a local path" if url.startswith("file:") else f"from {url}")
    wheel = re.search(r"^Tag: (.*)$", distribution.read_text("WHEEL") or "", re.MULTILINE)
    return ", ".join([*parts, wheel.group(1)] if wheel else parts)


def performance_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that change speed, sorted; a path is only said to be one."""
    wanted = sorted(name for name in environment if ENVIRONMENT.fullmatch(name))
    return {name: without_paths(_shown(name, environment[name])) for name in wanted}


def _shown(name: str, value: str) -> str:
    """What may hold a key is only said to be there; boards by UUID are counted, or each would be a stack of its own."""
    if is_secret(name):
        return "set, and not recorded"
    named = [part for part in value.split(",") if part.strip().startswith(("GPU-", "MIG-"))]
    return f"{len(named)} by UUID" if named and name.endswith("_VISIBLE_DEVICES") else value


def loaded_libraries(maps: Sequence[Path], whose: str) -> Fact:
    """Kernel libraries mapped into these processes, by kind; two names under one kind are a shadowed copy."""
    try:
        text = "\n".join(path.read_text(errors="replace") for path in maps)
    except OSError:
        return unknown("this system does not list the libraries of a process")
    files = sorted({path.rpartition("/")[2] for path in re.findall(r"\s(/\S+\.so\S*)", text)})
    libraries = {kind: [name for name in files if re.search(pattern, name)] for kind, pattern in _LIBRARIES.items()}
    return observed({kind: names for kind, names in libraries.items() if names}, whose)
