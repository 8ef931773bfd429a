"""The server of an engine in this process that is not torch: export, fp32 reference, load, evidence, batches."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinlens.errors import BadInput
from twinlens.executors.in_process.engine import Batches, Engine, Evidence, Runtime
from twinlens.executors.in_process.export import Export, exported
from twinlens.executors.in_process.inputs import Pictures, Prompts
from twinlens.executors.in_process.player import LockstepPlayer, first_answers, loaded
from twinlens.executors.in_process.precision_check import compared_with, over_phases, precision_checks
from twinlens.executors.in_process.torch_work import (
    Linear,
    TorchWork,
    ceilings_again,
    measure_beside,
    random_images,
    write_weights,
)
from twinlens.executors.in_process.weights import (
    finding_on_weights,
    lockstep_facts,
    model_facts,
    regime_facts,
    weights_hash,
)
from twinlens.executors.protocol import Say, TakesRow
from twinlens.executors.registry import not_installed
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts, FidelityRow
from twinlens.record.executor.record import ExecutorRecord, Fact, PrecisionCheck, declared, observed, unknown
from twinlens.record.finding import Finding
from twinlens.schedule.request import Schedule, ScheduledRequest
from twinlens.spec.model.reference import DecoderShape, ModelRef
from twinlens.spec.precision import BITS
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.page_cache import cached_share
from twinlens.system.processes import usable_cores
from twinlens.units import BYTES

_LOADED = "from the call that loads the export to an engine that takes requests, its libraries imported already"


class EngineServer:
    """Answers the requests that are due together as one batch, or hands them to an engine that batches them itself."""

    def __init__(self, kind: str, runtime_of: Callable[[RunSpec], Runtime]) -> None:
        """`runtime_of` imports the runtime's packages; raises ImportError where they are not installed."""
        self._kind, self._runtime_of = kind, runtime_of
        self._engine: Engine | None = None

    def open(self, spec: RunSpec, say: Say) -> Facts:
        self.spec, self.ref = spec, spec.model.known()
        try:
            self._runtime = self._runtime_of(spec)
        except ImportError as error:
            raise not_installed(self._kind, error) from None
        self.threads = spec.executor.threads or usable_cores()
        is_text = self.ref.shape.family == "decoder"
        if is_text:
            refuse_long(spec, self.ref)
        self._inputs = Prompts(spec, self.ref) if is_text else Pictures(spec, self.ref, random_images(spec))
        self._player = LockstepPlayer(self._answer, is_text=is_text)
        self.export = export_of(self._runtime, spec, self.ref, say)
        say("computing the fp32 reference and measuring ceilings")
        sample = self._inputs.sample()
        self.linears = self._runtime.linears(self.export.path)
        beside = measure_beside(spec, sample, self.linears, self.threads)
        say(f"loading it into {self._runtime.name}")
        startup = self._start(self._runtime, is_text=is_text)
        assert self._engine is not None
        say("taking evidence")
        evidence = self._engine.evidence(self._inputs.for_evidence())
        facts = facts_of(spec, self.ref, evidence, beside, self.export, self.linears)
        return replace(facts, fidelity=self._compared(sample, beside.reference), startup=startup)

    def play(self, schedule: Schedule, rows: TakesRow) -> None:
        if isinstance(self._engine, Batches):
            self._engine.play(schedule, rows, self._ids)
        else:
            self._player.play(schedule, rows)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def ceilings_again(self) -> Estimates:
        """The matrix rate and the read bandwidth once more, measured by torch in a process of its own."""
        return ceilings_again(self.spec, self.threads)

    def _start(self, runtime: Runtime, *, is_text: bool) -> Estimates:
        """Load the engine and ask it twice, before anything else has run on it."""
        cached, begin_s = cached_share(self.export.path), time.monotonic()
        engine = self._engine = runtime.load(self.export.path, self.spec, self.ref, self.threads)
        figures = loaded(time.monotonic() - begin_s, _LOADED, cached)
        if isinstance(engine, Batches):
            first = first_answers(engine.stepper(self._ids).play, self.spec, together=1, is_text=True)
        else:
            player, batch = LockstepPlayer(self._answer, is_text=is_text), self.spec.point.batch
            first = first_answers(player.play, self.spec, together=batch, is_text=is_text)
        return figures | first

    def _ids(self, scheduled: ScheduledRequest) -> np.ndarray:
        ids: np.ndarray = self._inputs.of((scheduled,))[0]
        return ids

    def _answer(self, upcoming: tuple[ScheduledRequest, ...]) -> tuple[int, list[int]]:
        assert self._engine is not None
        return self._engine.answer(self._inputs.of(upcoming), upcoming[0].output_tokens)

    def _compared(self, sample: np.ndarray | None, reference: np.ndarray | None) -> tuple[FidelityRow, ...]:
        """fp32 is compared too: an export that changed the model shows there."""
        if sample is None or reference is None:
            return ()
        assert self._engine is not None
        is_text = sample.ndim == 2
        return tuple(
            compared_with(expected, self._engine.log_probabilities(one[None]), one if is_text else None)
            for one, expected in zip(sample, reference, strict=True)
        )


def export_of(runtime: Runtime, spec: RunSpec, ref: ModelRef, say: Say) -> Export:
    """The cached export of this model at this precision, or a new one; nothing of it is timed."""
    weights = weights_hash(ref, spec.protocol.seed)
    made_by = hashlib.sha256(f"{weights} {runtime.made_by(spec)}".encode()).hexdigest()[:16]

    def make(folder: Path) -> None:
        say(f"exporting {ref.name} for {runtime.name} (once)")
        with tempfile.TemporaryDirectory() as temporary:
            source = Path(temporary) / "weights"
            write_weights(spec, source)
            runtime.make(spec, source, folder)

    return exported(runtime.name, f"{Path(ref.name).stem}-{spec.point.precision}-{made_by}", make)


def refuse_long(spec: RunSpec, ref: ModelRef) -> None:
    """Raises BadInput (TL202) for requests that are longer than the model's context."""
    assert isinstance(spec.workload, InferenceWorkload)
    assert isinstance(ref.shape, DecoderShape)
    asked = spec.workload.input_tokens.max + spec.workload.output_tokens.max
    limit = ref.config.get("max_position_embeddings")
    if isinstance(limit, int) and asked > limit:
        raise BadInput(
            f"input_tokens and output_tokens come to {asked}, the model's context ends at {limit}", code="TL202"
        )


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
    own = {
        "serving.graphs": observed("none (captured graphs are of GPUs)", _HERE),
        "decoding.cache_hit_ratio": declared(0.0, f"{_HERE}: every batch begins with an empty cache"),
        "protocol.synchronisation": observed("none needed: the processor is done when it returns", "the loop"),
    }
    of_run = lockstep_facts(spec.point.batch, _HERE) | own
    return of_run | model_facts(ref, spec.protocol.seed) | regime_facts(spec.precision)


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
