"""Facts of torch: version, build, threads, code path and numeric settings. Needs torch."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from typing import Any

import torch

from twinlens.executors.in_process.weights import finding_on_weights, model_facts, regime_facts
from twinlens.executors.torch.device import fp32_settings, why_no_gpu
from twinlens.executors.torch.entry import TorchOptions
from twinlens.executors.torch.evidence.trace import Kernel, longest
from twinlens.executors.torch.model.build import parameter_count
from twinlens.record.executor.record import Fact, PrecisionCheck, declared, observed, unknown
from twinlens.record.finding import Finding
from twinlens.spec.model.any_model import Model
from twinlens.spec.precision import Precision
from twinlens.spec.study import RunSpec


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


_SOURCE = "torch.cuda.get_device_properties"


def device_facts(device: torch.device) -> dict[str, Fact]:
    """Identity of a CUDA device; empty for the processor, which is its own accelerator."""
    return properties_facts(torch.cuda.get_device_properties(device)) if device.type == "cuda" else {}


def properties_facts(properties: Any) -> dict[str, Fact]:
    """Facts from the properties of a device, as far as this torch has them."""
    facts = {
        "accelerator.vendor": observed("AMD" if torch.version.hip else "NVIDIA", "torch.version"),
        "accelerator.product": observed(str(properties.name), _SOURCE),
        "accelerator.count": observed(1, "one device for each run"),
        "accelerator.architecture": observed(f"compute capability {properties.major}.{properties.minor}", _SOURCE),
        "accelerator.memory_bytes": observed(int(properties.total_memory), _SOURCE),
        "accelerator.uuid": observed([f"GPU-{properties.uuid}"], _SOURCE),
    }
    if " MIG " in f"{properties.name} ":
        facts["accelerator.partition"] = observed("MIG slice", f"{_SOURCE}, name")
    return facts


def software(
    spec: RunSpec,
    ref: Model,
    kernels: Sequence[Kernel],
    regime: Precision,
    checks: Sequence[PrecisionCheck],
    weights_seed: int,
    device: torch.device,
    drawn: str = "",
) -> dict[str, Fact]:
    """The software that runs, as facts by field id. `kernels`: of what is timed. `drawn`: what drew random weights."""
    options = TorchOptions.of(spec.executor.options)
    compiled = options.is_compiled
    facts = framework_facts() | {
        "compiler.name": declared("torch.compile (inductor)" if compiled else "none (eager)", "executor.options.graph"),
        "compiler.version": observed(str(torch.__version__), "torch.__version__"),
        "compiler.flags": observed(
            {
                "graph": "compiled" if compiled else "eager",
                "layout": options.layout,
                "freed_memory": options.freed_memory,
            },
            "the executor",
        ),
        "kernels.selected": observed(longest(kernels), "torch.profiler"),
        "protocol.synchronisation": observed(_synchronisation(spec, device), "the loop"),
    }
    facts |= model_facts(ref, weights_seed, drawn) | regime_facts(regime)
    if regime.quantised:
        scales = f"group {regime.group or 'per channel'}, scales of {regime.scale_bits} bits"
        facts["precision.detail"] = declared(scales, "spec/precision.py")
    facts |= check_facts(checks) | device_facts(device)
    facts["precision.support"] = observed({c.tensor_class: c.support for c in checks}, "instruction set and kernels")
    return facts


def check_facts(checks: Sequence[PrecisionCheck]) -> dict[str, Fact]:
    """The format of each tensor class, as it was seen or as it is declared."""
    return {
        f"precision.{check.tensor_class}": observed(check.observed, check.evidence)
        if check.observed
        else declared(check.declared, f"not seen: {check.evidence}")
        for check in checks
    }


def transformers_version() -> Fact:
    import transformers

    return observed(transformers.__version__, "transformers.__version__")


def findings_on(spec: RunSpec, ref: Model, regime: Precision, device: torch.device) -> list[Finding]:
    """Findings that a reader must see beside the numbers."""
    reason = why_no_gpu() if spec.device.kind == "auto" else None
    findings = [Finding("on-cpu", "notes", "", {"reason": reason})] if reason else []
    if (of_weights := finding_on_weights(ref)) is not None:
        findings.append(of_weights)
    if ref.shape is None:
        numbers = {"type": str(ref.config.get("model_type")), "parameters": parameter_count(ref)}
        findings.append(Finding("shape-unknown", "notes", ref.name, numbers))
    if regime.name == "fp8" and spec.lens == "training" and not TorchOptions.of(spec.executor.options).is_compiled:
        findings.append(Finding("fp8-eager", "notes"))
    if regime.name == "fp16" and device.type == "cpu":
        findings.append(Finding("fp16-emulated", "notes"))
    return findings


def _synchronisation(spec: RunSpec, device: torch.device) -> str:
    if device.type == "cpu":
        return "none needed: the processor is done when it returns"
    if spec.lens == "training":
        return "device synchronised once per step; phases from events on its stream"
    return "device synchronised at every token, as a server that streams needs it (10-30 us each)"


_COUNTERS = "torch._dynamo.utils.counters"


def start_counting() -> None:
    """Forget what this process compiled before."""
    from torch._dynamo.utils import counters

    counters.clear()


def graph_facts(graph: str, device: torch.device, *, serving: bool) -> dict[str, Fact]:
    """Graph breaks, and whether CUDA graphs were captured; ask after the compiled graph has run a few times."""
    if graph != "compiled":
        return {"serving.graphs": observed("none (eager)", "executor.options.graph")} if serving else {}
    from torch._dynamo.utils import counters

    breaks = {str(reason).splitlines()[0][:120]: count for reason, count in counters["graph_break"].items()}
    fields = {"kernels.graph_breaks": observed({"count": sum(breaks.values()), "reasons": sorted(breaks)}, _COUNTERS)}
    return fields | ({"serving.graphs": _captured(device)} if serving else {})


def _captured(device: torch.device) -> Fact:
    if device.type != "cuda":
        return observed("none (captured graphs are of GPUs)", "torch.device")
    from torch._dynamo.utils import counters

    skips = counters["inductor"]["cudagraph_skips"]
    if skips:
        return observed(f"none: torch skipped CUDA graphs {skips} times", _COUNTERS)
    recorded = _recorded(device)
    if recorded is None:
        return unknown("no graph was skipped, and this torch does not say whether one was recorded")
    captured = "CUDA graphs captured" if recorded else "none: no graph was recorded"
    return observed(captured, "torch._inductor.cudagraph_trees")


def _recorded(device: torch.device) -> bool | None:
    """Whether CUDA graph trees hold a recording for this device; None where this torch cannot be asked."""
    try:
        from torch._inductor.cudagraph_trees import get_container

        manager = get_container(device.index or 0).tree_manager
        return manager is not None and any(True for _ in manager.get_roots())
    except (ImportError, AttributeError):
        return None
