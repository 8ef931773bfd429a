"""Facts of the embedded executor's software, and the notes a reader must see. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from twinlens.executors.in_process.weights import finding_on_weights
from twinlens.executors.torch.device import why_no_gpu
from twinlens.executors.torch.evidence.device_facts import device_facts
from twinlens.executors.torch.evidence.facts import Kernel, framework_facts, longest
from twinlens.executors.torch.model.build import parameter_count, weights_hash
from twinlens.executors.torch.options import TorchOptions
from twinlens.record.executor.record import Fact, PrecisionCheck, declared, observed
from twinlens.record.finding import Finding
from twinlens.spec.model.any_model import Model
from twinlens.spec.precision import Precision
from twinlens.spec.study import RunSpec


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
        "model.id": declared(ref.name, ref.source),
        "model.weights_hash": observed(
            weights_hash(ref, weights_seed, drawn), "weights" if ref.folder else "config, seed and generator"
        ),
        "precision.name": declared(regime.name, "spec"),
        "precision.method": declared(regime.method, "spec/precision.py"),
        "precision.calibration": declared("none needed", "spec/precision.py"),
        "precision.detail": declared(
            f"group {regime.group or 'per channel'}, scales of {regime.scale_bits} bits"
            if regime.quantised
            else "plain",
            "spec/precision.py",
        ),
    }
    for check in checks:
        facts[f"precision.{check.tensor_class}"] = (
            observed(check.observed, check.evidence)
            if check.observed
            else declared(check.declared, "not seen: " + check.evidence)
        )
    facts |= device_facts(device)
    facts["precision.support"] = observed({c.tensor_class: c.support for c in checks}, "instruction set and kernels")
    return facts


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
