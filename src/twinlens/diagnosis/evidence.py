"""The evidence of a diagnosis: one finished run as time, work, ceilings and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlens.diagnosis.decoder import (
    Decoder,
    Trained,
    decoder_of,
    devices_of,
    engine_formats_of,
    precision_of,
    shape_of,
    slo_share_of,
    trained_of,
)
from twinlens.diagnosis.instrument import Instrument, instruments_of
from twinlens.diagnosis.phase import Partition, Phase, known
from twinlens.diagnosis.served_work import served_phases
from twinlens.diagnosis.time_split import LowerLoad, host_pressure, in_use, of_lockstep, of_served, of_steps
from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.foreign_text import in_one_line
from twinlens.record.run import Place, Run
from twinlens.spec.precision import Precision
from twinlens.stats.metrics.inference import batch_heads
from twinlens.stats.metrics.training import trained_alone
from twinlens.stats.summary.group import Summary
from twinlens.stats.summary.serving import is_served
from twinlens.theory.traffic import activation_elements_moved

Kind = Literal["training", "engine", "served"]
_WIDEST = 4.0  # bytes of an activation: an upper bound of traffic takes the widest format
_WATCHED = "own-loop"
_PASSES = {"step": 3}  # forward once, and twice as much backward


@dataclass(frozen=True, slots=True)
class Evidence:
    """`batch`: sequences computed together (of a training step: samples); None where a server decides. `filled`: useful
    over computed tokens of a batch, None where unknown. `on_gpu`: None where the machine is not known. `findings`: of
    the run itself. `on_processor`: see `processor_share`. `in_use`: see `in_use.py`.
    `decoder`: see `decoder_of`. `slo_share`: of requests that
    must keep the SLO; None without one. `engine_formats`: see `formats_of` of `record/executor/field.py`.
    `first_token`, `lower_load`: see `first_token.py`; None where no run at a lower load is known.
    `place`: where the work was done. `probed`: its ceilings are those of an earlier probe. `instruments`: counters of
    the board itself, in the run. `host`: see `host_pressure.py`."""

    kind: Kind
    ranked: bool
    label: str
    partition: Partition
    phases: tuple[Phase, ...]
    ceilings: Mapping[str, Estimate]
    ceilings_after: Mapping[str, Estimate]
    metrics: Mapping[str, Estimate]
    findings: tuple[Finding, ...] = ()
    batch: int | None = None
    filled: float | None = None
    on_gpu: bool | None = None
    in_use: Mapping[str, Any] = field(default_factory=dict)
    optimizer_bytes: float | None = None
    on_processor: float | None = None
    decoder: Decoder | None = None
    devices: int = 1
    slo_share: float | None = None
    precision: Precision | None = None
    engine_formats: Mapping[str, str] = field(default_factory=dict)
    trained: Trained | None = None
    place: Place = "here"
    probed: bool = False
    instruments: tuple[Instrument, ...] = ()
    host: Mapping[str, Estimate] = field(default_factory=dict)
    first_token: Estimate | None = None
    lower_load: LowerLoad | None = None
    unmarked: str = ""
    """Of a watched loop: "data" where its batches do not come through `run.data`, else "loop"; "" of other runs."""


def evidence_of(run: Run, summary: Summary) -> Evidence:
    """All that a diagnosis needs of one run. Raises BadInput (TL228) for a run that is not finished or has no rows."""
    if why := _nothing_in(run, summary):
        raise BadInput(f"{run.id} {why}", code="TL228")
    facts = run.facts
    kind: Kind = "training" if run.lens == "training" else "served" if is_served(run) else "engine"
    read = {"training": _training, "engine": _engine, "served": _served}[kind]
    partition, phases, batch, filled = read(run, summary)
    window = summary.verdict.begin_s, summary.verdict.end_s
    return Evidence(
        kind, summary.validity == "valid", summary.label, partition, phases,
        *_ceilings(run, kind), summary.metrics, summary.findings,
        batch, filled, None if facts is None or kind == "served" else "accelerator.uuid" in facts.executor.facts,
        in_use(run),
        _optimizer_bytes(run),
        None if kind == "served" and run.sections.server is None else processor_share(run.telemetry, _processors(run)),
        decoder_of(run, phases), devices_of(run), slo_share_of(run), precision_of(run), engine_formats_of(run),
        trained_of(run), run.place,
        instruments=instruments_of(run.telemetry, *window),
        host={} if run.place in ("recorded", "simulated") else host_pressure(run.telemetry, *window),
        unmarked="" if run.spec.executor.kind != _WATCHED else "loop" if "data" in partition.parts else "data",
    )  # fmt: skip


def _nothing_in(run: Run, summary: Summary) -> str | None:
    """Why there is nothing to diagnose in a run, and what to do."""
    nothing = "so there is nothing to diagnose"
    if run.lens == "collective":
        return f"is of exchanges between ranks and runs no model, {nothing}; `twinlens show` has its figures"
    if run.state == "running":
        return f"is still being measured, {nothing} yet; wait until it is over"
    if run.state == "failed":
        return f"failed ({in_one_line(run.error or 'no reason was kept')[:120]}), {nothing}; measure it again"
    if run.state == "interrupted":
        return f"was interrupted, {nothing}; give the same `twinlens measure` command again, and it goes on"
    if not run.table.num_rows:
        return f"has no rows, {nothing}; measure it again"
    if summary.verdict.end_row <= summary.verdict.begin_row:
        return f"has no rows of a steady window, {nothing}; measure longer"
    return None


def _ceilings(run: Run, kind: Kind) -> tuple[Mapping[str, Estimate], Mapping[str, Estimate]]:
    """Before the rows and after them. Beside a server there is one set, measured when the load is over."""
    before, after = run.facts.ceilings if run.facts else {}, run.sections.ceilings_after
    return ({**before, **after}, {}) if kind == "served" else (before, after)


Read = tuple[Partition, tuple[Phase, ...], int | None, float | None]


def _training(run: Run, summary: Summary) -> Read:
    only = trained_alone(run.steps)
    window = only.where(slice(summary.verdict.begin_row, summary.verdict.end_row))
    partition = of_steps(window)
    waits = sum(partition.parts.get(name, 0.0) for name in ("data", "communicate", "between-steps"))
    busy_s = partition.seconds - waits
    samples = int(window.samples[0]) if len(window) else None
    # Text is packed: a step that trained on fewer tokens than it computed says so here.
    computed = 0.0 if _lengths_differ(run) else float(window.samples.sum()) * getattr(run.spec.workload, "seq_len", 0)
    filled = float(window.tokens.sum()) / computed if computed and window.tokens.any() else None
    tokens = float(window.tokens.mean()) if len(window) else 0.0
    return partition, (_phase(run, "step", "step", busy_s, "step_flop", "step_bytes", tokens),), samples, filled


def _lengths_differ(run: Run) -> bool:
    """Whether it is known that its steps have no one length, so that no row says what was computed with padding."""
    length = run.facts.executor.facts.get("workload.input_tokens") if run.facts else None
    return length is not None and length.value is None


def _engine(run: Run, summary: Summary) -> Read:
    own = run.requests.own_time()
    rows = batch_heads(own)[summary.verdict.begin_row : summary.verdict.end_row]
    partition, batch = of_lockstep(own, rows), run.spec.point.batch
    members = np.isin(own.group, own.group[rows])
    tokens = own.output_tokens[members]
    filled = filled_share(own.group[members], tokens)
    uneven = np.ptp(own.input_tokens[members]) or np.ptp(tokens)
    if uneven:
        reason = "requests differ in length, and work by theory is of the longest only"
        phases = tuple(Phase(name, name, None, None, None, reason=reason) for name in ("prefill", "decode"))
        return partition, phases, batch, filled
    if "forward" in partition.parts:
        return partition, (_phase(run, "forward", "forward", partition.parts["forward"], "image_flop", "", 0.0),), \
            batch, None  # fmt: skip
    prompt, steps = int(own.input_tokens[rows[0]]), max(1, int(own.output_tokens[rows[0]]) - 1)
    prefill_s, decode_s = (partition.parts.get(name, 0.0) for name in ("prefill", "decode"))
    phases = (
        _phase(run, "prefill", "prefill", prefill_s, "prefill_flop", "prefill_bytes", float(prompt * batch)),
        _phase(run, "decode", "decode", decode_s / steps, "decode_flop", "decode_bytes", float(batch)),
    )
    return partition, phases, batch, filled


def filled_share(group: np.ndarray, tokens: np.ndarray) -> float | None:
    """Tokens over the places they took: a batch goes on until its longest answer ends. None where there is no token."""
    _, inverse, sizes = np.unique(group, return_inverse=True, return_counts=True)
    longest = np.zeros(len(sizes), np.int64)
    np.maximum.at(longest, inverse, tokens)
    places = int((longest * sizes).sum())
    return float(tokens.sum()) / places if places else None


def _served(run: Run, summary: Summary) -> Read:
    own = run.requests.own_time()
    order = np.argsort(own.intended_ns, kind="stable")
    rows = order[summary.verdict.begin_row : summary.verdict.end_row]
    read_ns = summary.verdict.begin_s * 1e9, summary.verdict.end_s * 1e9
    partition = of_served(own, rows, summary.metrics, read_ns)
    phases, together = served_phases(own, rows, summary.metrics, shape_of(run), run.spec.precision, run.facts)
    efficiency = summary.metrics.get("batching_efficiency")
    batch = None if together is None else max(1, round(together))
    return partition, phases, batch, efficiency.value if efficiency else None


def _phase(run: Run, name: str, part: str, seconds: float, flop: str, moved: str, tokens: float) -> Phase:
    work = run.facts.work if run.facts else {}
    done, least = known(work, flop), known(work, moved)
    if not seconds or done is None or least is None:
        return Phase(name, part, seconds or None, done, least, reason="its FLOP or bytes are not known")
    shape = shape_of(run)
    most = None
    if shape is not None:
        most = least + tokens * activation_elements_moved(shape) * _WIDEST * _PASSES.get(name, 1)
    elif name == "step" and (operands := known(work, "operand_step_bytes")) is not None:
        most = max(least, operands)
    return Phase(name, part, seconds, done, least, most, known(work, "linear_bytes") if name == "decode" else None)


def _optimizer_bytes(run: Run) -> float | None:
    """Bytes of one optimizer step as resident: gradients read, weights and states read and written."""
    memory = run.facts.memory if run.facts else {}
    parts = [known(memory, name) for name in ("gradients_bytes", "weights_bytes", "optimizer_bytes")]
    gradients, weights, states = parts
    if run.lens != "training" or gradients is None or weights is None or states is None:
        return None
    return gradients + 2 * weights + 2 * states


def processor_share(telemetry: pa.Table, processors: int | None) -> float | None:
    """The share of the time in which our threads could run that they had a processor; below 1 others had it.

    From what each sample of the host says since the one before: processors in use by us, and threads of ours that were
    ready and had none. None where either is not known.
    """
    if not processors or not telemetry.num_rows:
        return None
    host = telemetry.filter(pc.equal(telemetry["source"], "host"))
    used, waited = (host[name].to_numpy(zero_copy_only=False).astype(float) for name in ("cpu_busy", "waited_cpu"))
    ran, ready = float(np.nansum(used)) * processors, float(np.nansum(waited))
    both = ~np.isnan(used) & ~np.isnan(waited)
    return ran / (ran + ready) if both.any() and ran > 0 else None


def _processors(run: Run) -> int | None:
    fact = run.facts.executor.facts.get("host.cpu.threads") if run.facts else None
    return int(fact.value) if fact is not None and fact.value else None


# The form of a rule: its test, and the text of its page.


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `find` decides; the other fields are the page of `code`, which `make reference` writes.

    `says`: one sentence. `evidence`: what is held against what. `lies`: when the rule is wrong. `remedy`: what to try,
    also shown as advice. `falsifier`: a measurement that would prove the rule wrong. `see`: names of other pages.
    """

    code: str
    find: Callable[[Evidence], Iterable[Finding]]
    says: str
    why: str
    evidence: str
    lies: str
    remedy: str
    falsifier: str
    sources: tuple[str, ...]
    see: tuple[str, ...]
    laws: tuple[str, ...] = ()
    """Rows of theory (`theory/law.py`) that it holds a measurement against."""
