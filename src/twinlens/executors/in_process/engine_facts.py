"""Facts of a run on an engine that is not torch: its evidence, its export, and what torch measured beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twinlens.executors.in_process.engine import Evidence
from twinlens.executors.in_process.export import Export
from twinlens.executors.in_process.precision_check import over_phases, precision_checks
from twinlens.executors.in_process.torch_work import Linear, TorchWork
from twinlens.executors.in_process.weights import finding_on_weights, weights_hash
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.executor.record import ExecutorRecord, Fact, PrecisionCheck, declared, observed, unknown
from twinlens.record.finding import Finding
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.precision import BITS
from twinlens.spec.study import RunSpec
from twinlens.units import BYTES

_HERE = "executors/in_process"
_COUNTED = "FLOP of products with weights"


def facts_of(
    spec: RunSpec, ref: ModelRef, evidence: Evidence, beside: TorchWork, export: Export, linears: Sequence[Linear]
) -> Facts:
    """All but fidelity, which the caller compares."""
    regime = spec.precision
    asked = regime.classes("inference") | {"compute": regime.compute}
    phases = evidence.ran or {"all": {}}
    checks = over_phases(
        {
            phase: precision_checks(asked, evidence.held, ran, beside.support, evidence.missing, _COUNTED)
            for phase, ran in phases.items()
        }
    )
    checks = tuple(_shipped(check) if check.tensor_class in evidence.left else check for check in checks)
    stored = sum(out * width * BITS.get(fmt, 32) for out, width, fmt in linears) / 8
    method = "weights of all linear layers, as they are stored, scales not counted"
    work = {"linear_bytes": Estimate(stored, BYTES, method, "derived", n=1)} if linears else {}
    memory = {name: Estimate(float(size), BYTES, how, "measured", n=1) for name, (size, how) in evidence.memory.items()}
    numbers = {"seconds": export.seconds, "size_bytes": export.size_bytes}
    findings = [Finding("exported", "notes", "", numbers), *evidence.findings]
    if evidence.left:
        seen = {check.tensor_class: check.observed or "" for check in checks if check.tensor_class in evidence.left}
        findings.append(Finding("as-shipped", "notes", "", seen))
    if (of_weights := finding_on_weights(ref)) is not None:
        findings.append(of_weights)
    fields = _of_any_engine(spec, ref) | _precision(checks) | dict(evidence.facts)
    return Facts(
        ExecutorRecord(fields),
        checks,
        work=work,
        ceilings=_of_what_ran(beside.ceilings, regime.compute, checks),
        memory=memory,
        findings=tuple(findings),
    )


def _of_what_ran(ceilings: Estimates, asked: str, checks: Sequence[PrecisionCheck]) -> Estimates:
    """Without the rate of products where the runtime took another format for them than the one measured."""
    ran = next((check.observed for check in checks if check.tensor_class == "compute" and check.observed), asked)
    if ran == asked:
        return ceilings
    why = f"measured in {asked}; as shipped, products are computed in {ran}"
    return {
        name: Estimate.absent(each.unit, why) if name.startswith("matrix") else each for name, each in ceilings.items()
    }


def _of_any_engine(spec: RunSpec, ref: ModelRef) -> dict[str, Fact]:
    regime = spec.precision
    fields = {
        "serving.batching": observed("lockstep batches", _HERE),
        "serving.max_sequences": observed(spec.point.batch, "point.batch"),
        "serving.prefix_cache": observed("none", _HERE),
        "serving.speculative": observed("none", _HERE),
        "serving.chunked_prefill": observed("no", _HERE),
        "serving.graphs": observed("none (captured graphs are of GPUs)", _HERE),
        "decoding.cache_hit_ratio": declared(0.0, f"{_HERE}: every batch begins with an empty cache"),
        "decoding.strategy": observed("greedy", _HERE),
        "decoding.stop": observed("forced length", _HERE),
        "point.batch_achieved": observed(spec.point.batch, "lockstep"),
        "protocol.synchronisation": observed("none needed: the processor is done when it returns", "the loop"),
        "model.id": declared(ref.name, ref.source),
        "model.weights_hash": observed(
            weights_hash(ref, spec.protocol.seed), "weights" if ref.folder else "config, seed and generator"
        ),
        "precision.name": declared(regime.name, "spec"),
        "precision.method": declared(regime.method, "spec/precision.py"),
        "precision.calibration": declared("none needed", "spec/precision.py"),
        "precision.detail": declared("plain", "spec/precision.py"),
    }
    return fields


def _shipped(check: PrecisionCheck) -> PrecisionCheck:
    """What the runtime takes by itself is what it was asked for."""
    return replace(check, declared="as shipped", verdict="agrees" if check.observed else "unknown")


def _precision(checks: Sequence[PrecisionCheck]) -> dict[str, Fact]:
    fields = {
        f"precision.{check.tensor_class}": observed(check.observed, check.evidence)
        if check.observed
        else unknown(f"as shipped, and not seen: {check.evidence}")
        if check.declared == "as shipped"
        else declared(check.declared, "not seen: " + check.evidence)
        for check in checks
    }
    supported = {check.tensor_class: check.support for check in checks}
    return fields | {"precision.support": observed(supported, "instruction set and kernels")}
