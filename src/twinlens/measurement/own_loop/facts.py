"""Facts of a run of somebody's own loop: those of the machine, of the loop, and of the model where theory knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from twinlens.errors import BadInput
from twinlens.measurement.facts.predicted_work import clocked, datasheet_of, work_of
from twinlens.measurement.facts.provenance import facts_of_model, said_by_tool
from twinlens.measurement.machine.energy import energy_facts, open_meters
from twinlens.measurement.machine.host import capture_host
from twinlens.measurement.machine.software import software_facts
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.executor.record import ExecutorRecord, Fact, declared, observed, unknown
from twinlens.record.finding import Finding
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.model.config import knows, shape_from_config
from twinlens.spec.precision import AS_FOUND
from twinlens.spec.study import RunSpec
from twinlens.stats.estimator.repeats import scaled
from twinlens.system.nvml import open_gpus
from twinlens.theory.flop import parameters
from twinlens.units import BYTES, COUNT

_LOOP = "executors/own_loop/step_log.py"
_WATCH = "tl.watch"


def machine_facts(used: tuple[str, ...] | None, *, on_gpu: bool, says_device: bool) -> dict[str, Fact]:
    """Facts of this machine and its Python, taken before the loop. `used`: GPUs by UUID. `says_device`: whether the
    loop shows where it computes; else an accelerator beside the processor is not known to be in use or idle."""
    host = capture_host("cuda" if on_gpu else "cpu", used or (), (), in_use=True)
    meters = open_meters(open_gpus(used)[0] if used else (), boards=used or ())
    facts = host | software_facts() | energy_facts(meters, "gpu" if on_gpu else "package")
    if not says_device and open_gpus(None)[0]:
        reason = unknown("the loop does not say on which device it computes, and there are GPUs here")
        facts |= {name: reason for name in facts if name.startswith("accelerator.")}
    return facts


def model_at_hand(name: str, config: Mapping[str, Any] | None, counted: int) -> AnyModel:
    """The model that is watched, with its shape where its config is of a type that theory reads and the parameters
    that are there are as many as theory counts."""
    plain = dict(config or {})
    if not plain:
        return AnyModel(name=name, config={}, shape=None, source=_WATCH, why="the model has no config of a known type")
    if not knows(plain):
        why = f"theory here knows no models of type {plain.get('model_type')!r}"
        return AnyModel(name=name, config={}, shape=None, source=_WATCH, why=why)
    try:
        shape = shape_from_config(plain)
    except BadInput as unread:
        return AnyModel(name=name, config={}, shape=None, source=_WATCH, why=f"its shape cannot be told: {unread}")
    by_theory = parameters(shape).total
    if by_theory != counted:
        why = f"its config stands for {by_theory:,} parameters, and it has {counted:,}: it was changed since"
        return AnyModel(name=name, config={}, shape=None, source=_WATCH, why=why)
    return AnyModel(name=name, config=plain, shape=shape, source="model.config")


def whole_facts(
    spec: RunSpec, said: Facts, machine: dict[str, Fact], ref: AnyModel, *, even: bool, split: int = 1
) -> Facts:
    """All facts of the run. `said`: by the loop's own framework. `even`: steps are of one size, else theory, which
    counts the work of one size, is silent. `split`: ranks that compute each layer together, of which this is one."""
    record = ExecutorRecord(machine | facts_of_model(ref) | _asked(spec, even) | said_by_tool()).merged(said.executor)
    board = {k: f for k, f in machine.items() if k.startswith("accelerator.") and f.value is not None}
    record = record.merged(board)
    boards = record.value("accelerator.count")
    sheet = datasheet_of(record.value("accelerator.product"), spec.precision, boards if isinstance(boards, int) else 1)
    work = _counted(_of_one(_work(spec, ref, even), split) | said.work, even)
    return replace(said, executor=record, work=work, ceilings=sheet)


def most_of_memory(facts: Facts) -> Estimates:
    """The bound of what is measured on boards without a datasheet; empty where the driver does not say it."""
    record = facts.executor
    boards = record.value("accelerator.count")
    return clocked(record.value("accelerator.memory_bytes_per_s_spec"), boards if isinstance(boards, int) else 1)


def _of_one(work: dict[str, Estimate], split: int) -> dict[str, Estimate]:
    """This rank's share of the work that several do together on the same samples."""
    if split == 1:
        return work
    words = f"its share of the {split} ranks that compute each layer together"
    shared = {name: scaled(e, 1 / split, e.unit, words, e.origin) for name, e in work.items() if e.unit != COUNT}
    return work | shared


def _counted(work: dict[str, Estimate], even: bool) -> dict[str, Estimate]:
    """Work of a step as its profiled pass shows it, in the place of what theory has no formula for."""
    for name, counted in (("step_flop", "counted_step_flop"), ("step_bytes", "resident_step_bytes")):
        theory, found = work.get(name), work.get(counted)
        if even and found is not None and found.value is not None and (theory is None or theory.value is None):
            why = theory.reason if theory is not None else "theory does not know it"
            work = work | {name: replace(found, method=f"{found.method} ({why})")}
    return work


def _work(spec: RunSpec, ref: AnyModel, even: bool) -> dict[str, Estimate]:
    if spec.precision == AS_FOUND:  # FLOP do not depend on formats, bytes do
        plain = spec.model_copy(update={"point": spec.point.model_copy(update={"precision": "fp32"})})
        known = work_of(plain, ref)
        work = known | {k: Estimate.absent(e.unit, AS_FOUND.method) for k, e in known.items() if e.unit == BYTES}
    else:
        work = work_of(spec, ref)
    if even:
        return work
    reason = "steps differ in size, and theory counts the work of one size"
    return {name: each if each.unit == COUNT else Estimate.absent(each.unit, reason) for name, each in work.items()}


def _asked(spec: RunSpec, even: bool) -> dict[str, Fact]:
    """What the measuring layer knows; data, weights and seeds are the loop's own, and it shows none of them."""
    own = "it belongs to the loop, which does not show it"
    return {
        "workload.family": observed("training", _WATCH),
        "workload.data_hash": unknown(f"the data: {own}"),
        "workload.seed": unknown(f"the seed: {own}"),
        "workload.input_tokens": observed(spec.workload.seq_len, "the first step")  # type: ignore[union-attr]
        if even
        else unknown("steps differ in size"),
        "model.weights_hash": unknown("the weights are the loop's own and change as it goes on"),
        "point.batch": observed(spec.workload.global_batch, "the first step"),  # type: ignore[union-attr]
        "training.data_pipeline": unknown(f"the data: {own}"),
        "quality.metric": unknown("the loss is the loop's own, and its unit is not shown"),
        "quality.reference": unknown("nothing to compare the loss with is known"),
        "quality.tolerance": declared("none: the loop ends when it ends", _WATCH),
        "protocol.timed": observed("all between the ends of two optimizer steps", _LOOP),
        "protocol.warmup": observed(spec.protocol.warmup, "stats/steady/segment.py"),
        "protocol.steady": observed("change points, drift and cycle tests", "stats/steady/segment.py"),
        "protocol.window": observed("as long as the loop ran", _LOOP),
        "protocol.repeats": observed(1, _WATCH),
        "protocol.interval_method": observed("within a run, order statistics and blocks", "stats/estimator"),
        "protocol.timer": observed("time.monotonic_ns, or events of the GPU", "executors/own_loop/step_log.py"),
        "protocol.profiler": observed("off but for the second pass", "executors/torch/own_loop/side.py"),
        "protocol.tier": unknown("what was set in the loop, and what was tried before, is its author's to say"),
        "protocol.budget": unknown("what was set in the loop, and what was tried before, is its author's to say"),
    }


def one_rank_of(ranks: int, split: int = 1) -> tuple[Finding, ...]:
    """A loop on several ranks is recorded by the first, and its rows count that one's samples. `split`: as above; those
    ranks have the same samples."""
    together = {"split": split} if split > 1 else {}
    return (Finding("one-rank-of-many", "warns", "", {"ranks": ranks} | together),) if ranks > 1 else ()


UNSEEN = Facts(
    ExecutorRecord(
        {
            "software.framework.name": unknown("the loop does not say what computes it"),
            "precision.name": unknown("the loop does not say in which formats it computes"),
        }
    )
)
"""Of a loop without torch."""
