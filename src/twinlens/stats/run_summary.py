"""The summary of a run from its rows: every metric, and the verdict on steadiness. Pure; rebuilt at will."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from twinlens.record.codec import decode, encode
from twinlens.record.column import spans_of
from twinlens.record.estimate import Estimate, spreads_from_json, spreads_to_json
from twinlens.record.run import Run
from twinlens.spec.unsaid import FROM_LOG
from twinlens.spec.workload.collective import CollectiveWorkload
from twinlens.spec.workload.folder import Folder
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.stats.finding.checks import Seen, findings
from twinlens.stats.metrics.energy import EnergyScope, energy, energy_of_training
from twinlens.stats.metrics.fidelity import fidelity_gate
from twinlens.stats.metrics.inference import (
    exchange_metrics,
    exchange_steadiness,
    inference_metrics,
    inference_steadiness,
)
from twinlens.stats.metrics.memory import peak_memory
from twinlens.stats.metrics.training import training_metrics, training_steadiness
from twinlens.stats.steady.levels import SteadyRule
from twinlens.stats.steady.segment import Steadiness
from twinlens.stats.summary.group import Summary, Verdict
from twinlens.stats.summary.machine import machine_of, model_of, precision_of, startup
from twinlens.stats.summary.point import provisional
from twinlens.stats.summary.serving import is_served, nothing, served
from twinlens.stats.wall_time import goodput, save_metrics
from twinlens.units import BYTES

SUMMARY_SCHEMA = 9


def summarise(run: Run) -> Summary:
    """The summary of a run in any state, with or without rows."""
    came_to = served(run, _rule(run)) if is_served(run) else None
    if came_to is not None:
        metrics, verdict, units_of_work = came_to.metrics, came_to.verdict, came_to.work
    else:
        metrics, verdict, units_of_work = _OF_LENS[run.lens](run)
    client, server = (came_to.client, came_to.server) if came_to else (None, ())
    metrics["peak_bytes"] = (
        Estimate.absent(BYTES, "the memory of a server cannot be seen from its client")
        if _is_attached(run)
        else Estimate.absent(BYTES, "some ranks are on other nodes, whose memory is not sampled here")
        if _nodes(run) > 1 and run.sections.device_memory is None
        else Estimate.absent(BYTES, said)
        if (said := _said_of_one_gpu(run, "allocated_bytes", "reserved_bytes"))
        else peak_memory(
            run.telemetry,
            is_server=run.sections.server is not None,
            of_ranks=_has_ranks(run),
            on_gpu=_energy_scope(run) == "gpu",
            allocator=run.sections.device_memory,
        )
    )
    metrics |= startup(run)
    is_charged = not _is_attached(run) and _nodes(run) == 1
    energy_rows = run.telemetry if is_charged else run.telemetry.slice(0, 0)
    why_no_energy, scope, turns = _why_no_energy(run), _energy_scope(run), _turns(run)
    metrics |= energy(
        energy_rows, verdict.begin_s, verdict.end_s, units_of_work, why_no_energy, scope, _evaluations(run), turns
    )
    if run.lens == "training" and run.table.num_rows:
        span_s = float(run.steps.begin_ns[0]) / 1e9, float(run.steps.end_ns[-1]) / 1e9
        to_target_s, is_finished = metrics.get("time_to_target_s"), run.state == "finished"
        metrics |= energy_of_training(
            energy_rows, span_s, to_target_s, why_no_energy, scope, is_finished=is_finished, turns=turns
        )
    compared = fidelity_gate(metrics, run.spec.protocol.tolerance) if run.lens == "inference" else None
    summary = Summary(
        run=run.id,
        lens=run.lens,
        state=run.state,
        model=model_of(run),
        executor=_executor(run),
        point=_point(run),
        repeat=run.spec.repeat,
        rows=run.table.num_rows,
        verdict=verdict,
        metrics=metrics,
        gate=compared,
        notes=run.facts.notes if run.facts else (),
        identity=_identity(run),
        asked=_asked_hash(run),
        machine=machine_of(run),
        findings=findings(Seen(run, metrics, verdict, client, compared, server)),
        error=run.error,
        attempt=run.sections.attempt,
        greedy=run.sections.greedy,
        options=_switches(run),
        settings={"threads": run.spec.executor.threads} | run.spec.executor.options,
    )
    wide = provisional(metrics, summary.validity, verdict.least_visible_change, summary.point)
    return replace(summary, metrics=wide)


def to_json(summary: Summary) -> dict[str, Any]:
    """A summary as plain data, schema first."""
    spreads = spreads_to_json({name: each.spread for name, each in summary.metrics.items() if each.spread})
    return {"schema": SUMMARY_SCHEMA} | encode(summary) | {"validity": summary.validity, "spreads": spreads}


def from_json(data: dict[str, Any]) -> Summary:
    """The inverse of `to_json`; one of before findings were made has none. Raises ValueError otherwise."""
    summary, spreads = decode(Summary, data), spreads_from_json(data.get("spreads", {}))
    return replace(
        summary, metrics={name: replace(each, spread=spreads.get(name)) for name, each in summary.metrics.items()}
    )


def _training(run: Run) -> tuple[dict[str, Estimate], Verdict, dict[str, float]]:
    assert isinstance(run.spec.workload, TrainingWorkload)
    only, steadiness = training_steadiness(run.steps, _rule(run))
    metrics = training_metrics(run.steps, only, steadiness, run.spec.workload, run.facts)
    metrics |= goodput(run)
    if run.sections.checkpoints is not None:
        metrics |= save_metrics(run.sections.checkpoints, run.steps.where(run.steps.kind == "step"))
    if run.spec.executor.kind == FROM_LOG:  # step times, losses and counts are its words, whoever started the trainer
        said = {name: replace(each, origin="quoted") for name, each in metrics.items() if each.value is not None}
        metrics = metrics | said
    if steadiness is None:
        return metrics, nothing(), {}
    trained = np.flatnonzero((run.steps.kind == "step") & (run.steps.tag != "repeat"))
    rows = trained[steadiness.steady_begin : steadiness.steady_end]
    work = {"energy_per_step_j": float(len(rows)), "energy_per_token_j": float(run.steps.tokens[rows].sum())}
    return metrics, verdict_of(steadiness, run.steps.begin_ns[trained], run.steps.end_ns[trained]), work


def _inference(run: Run) -> tuple[dict[str, Estimate], Verdict, dict[str, float]]:
    assert isinstance(run.spec.workload, InferenceWorkload)
    requests, own = run.requests, run.requests.own_time()
    heads, steadiness = inference_steadiness(own, _rule(run))
    metrics = inference_metrics(own, heads, steadiness, run.facts)
    if steadiness is None:
        return metrics, nothing(), {}
    inside = np.isin(requests.group, requests.group[heads[steadiness.steady_begin : steadiness.steady_end]])
    done = inside & requests.ok
    work = {
        "energy_per_request_j": float(done.sum()),
        "energy_per_output_token_j": float(requests.output_tokens[done].sum()),
    }
    return metrics, verdict_of(steadiness, requests.intended_ns[heads], requests.end_ns[heads]), work


def _collective(run: Run) -> tuple[dict[str, Estimate], Verdict, dict[str, float]]:
    assert isinstance(run.spec.workload, CollectiveWorkload)
    rows = run.exchanges
    steadiness = exchange_steadiness(rows, _rule(run))
    metrics = exchange_metrics(rows, steadiness, run.spec.workload)
    if steadiness is None:
        return metrics, nothing(), {}
    return metrics, verdict_of(steadiness, rows.begin_ns, rows.end_ns), {}


_OF_LENS = {"training": _training, "inference": _inference, "collective": _collective}


def _has_ranks(run: Run) -> bool:
    """Whether processes of their own did the work, below the one that measures: they were sampled beside it."""
    return run.lens != "inference" and "server" in run.telemetry.column("source").unique().to_pylist()


def _nodes(run: Run) -> int:
    known = run.facts.executor.value("interconnect.node_count") if run.facts else None
    return known if isinstance(known, int) else 1


def _evaluations(run: Run) -> list[tuple[float, float]]:
    """When training looked at held-out data or recovered, in seconds: its rate leaves these out, so its energy does."""
    if run.lens != "training" or not run.table.num_rows:
        return []
    looks = run.steps.where((run.steps.kind != "step") | (run.steps.tag == "repeat"))
    return [(begin / 1e9, end / 1e9) for begin, end in zip(looks.begin_ns.tolist(), looks.end_ns.tolist(), strict=True)]


def _turns(run: Run) -> list[tuple[float, float]]:
    """When this run worked, in seconds, where points took turns: a counter goes on counting through all of them."""
    if not run.sections.pairing or not run.table.num_rows or run.lens == "collective":
        return []
    is_training = run.lens == "training"
    rows = (
        (run.steps.slice, run.steps.begin_ns, run.steps.end_ns)
        if is_training
        else (run.requests.slice, run.requests.intended_ns, run.requests.end_ns)
    )
    known = np.isfinite(rows[0])
    _, begin_ns, end_ns = spans_of(*(column[known] for column in rows))
    return [(begin / 1e9, end / 1e9) for begin, end in zip(begin_ns.tolist(), end_ns.tolist(), strict=True)]


def _identity(run: Run) -> str:
    """The identity that repeats share: everything that was asked but the repeat and the name, and the executor's
    hash."""
    who = run.facts.executor.hash() if run.facts else "unknown"
    return hashlib.sha256(f"{_asked_text(run)}/{who}".encode()).hexdigest()[:12]


def _asked_hash(run: Run) -> str:
    return hashlib.sha256(_asked_text(run).encode()).hexdigest()[:12]


def _asked_text(run: Run) -> str:
    return json.dumps(run.spec.to_dict() | {"repeat": 0, "name": ""}, sort_keys=True)


def _rule(run: Run) -> SteadyRule:
    return SteadyRule(min_seconds=run.spec.protocol.steady_s)


def verdict_of(steadiness: Steadiness, begin_ns: np.ndarray, end_ns: np.ndarray) -> Verdict:
    """The verdict of a run on its steadiness. `begin_ns`, `end_ns` [n]: of the rows that were judged, on its clock."""

    def times_s(begin: int, end: int) -> tuple[float, float]:
        return float(begin_ns[min(begin, end - 1)]) / 1e9, float(end_ns[end - 1]) / 1e9

    begin_s, end_s = times_s(steadiness.steady_begin, steadiness.steady_end)
    return Verdict(
        label=steadiness.label,
        validity=steadiness.validity,
        reason=steadiness.reason,
        begin_row=steadiness.steady_begin,
        end_row=steadiness.steady_end,
        begin_s=begin_s,
        end_s=end_s,
        disturbed=steadiness.disturbed.placed(times_s),
        least_visible_change=steadiness.least_visible_change,
        cv=steadiness.cv,
        trend=steadiness.trend,
    )


def _is_attached(run: Run) -> bool:
    """Whether it asked a server that somebody else had started: this machine is then its client's only."""
    return run.sections.client is not None and run.sections.server is None


def _energy_scope(run: Run) -> EnergyScope | None:
    """The device that the run computed on, and is charged with: GPU boards, named or not, or else the processor."""
    if run.facts is None:
        return None
    return "gpu" if "accelerator.uuid" in run.facts.executor.facts else "package"


def _why_no_energy(run: Run) -> str:
    if _is_attached(run):
        return "the energy of a server cannot be read from its client"
    if (nodes := _nodes(run)) > 1:
        return f"the ranks are on {nodes} nodes, and the counters of one are read"
    if said := _said_of_one_gpu(run, "energy_j"):
        return said
    fact = run.facts.executor.facts.get("power.source") if run.facts else None
    if fact is None:
        return "the executor said nothing about energy counters"
    return fact.reason or fact.source


def _said_of_one_gpu(run: Run, *names: str) -> str:
    """The reason for no sum where a trainer's log says a figure of one GPU; "" where it does not."""
    facts = run.facts if run.place == "recorded" else None  # what runs here is sampled, and needs no word of the log
    read = next((each for each in facts.findings if each.code == "read-from-log"), None) if facts else None
    said = read.numbers.get("of_gpu") if read else None
    known = isinstance(said, Mapping) and any(name in said for name in names)
    return "the log says it of one GPU (see the finding) and not how many there are" if known else ""


def _switches(run: Run) -> dict[str, Any]:
    """The options of a launched server that one word or number says, without paths and what is as shipped."""
    asked = run.spec.executor.options if run.sections.server else {}
    plain = {name: value for name, value in asked.items() if isinstance(value, bool | int | float | str)}
    return {name: value for name, value in sorted(plain.items()) if value != "auto" and name not in ("python", "gguf")}


def _trained(workload: TrainingWorkload) -> dict[str, Any]:
    """Method and rank where an adapter is trained; nothing where all weights are, as in every run of before."""
    adapter = workload.trained_adapter
    return {} if adapter is None else {"method": workload.method, "r": adapter.r}


def _point(run: Run) -> dict[str, Any]:
    point = run.spec.point.model_dump(mode="json", exclude_none=True) | {"precision": precision_of(run)}
    if run.lens == "training":
        point.pop("batch", None)  # the training workload says its own batch
        workload = run.spec.workload
        assert isinstance(workload, TrainingWorkload)
        if (saves := workload.checkpoint) is not None:
            point["saves"] = f"{saves.mode}/{saves.every_steps}"
        if isinstance(workload.data, Folder):
            point["workers"] = workload.data.workers
        return point | {"global_batch": workload.global_batch, "seq_len": workload.seq_len} | _trained(workload)
    if isinstance(run.spec.workload, CollectiveWorkload):
        point.pop("batch", None)
        return point | {"size_bytes": run.spec.workload.size_bytes}
    point.pop("microbatch", None)
    assert isinstance(run.spec.workload, InferenceWorkload)
    if run.spec.workload.adapter is not None:
        point |= {"adapter": run.spec.executor.options.get("adapter", "unmerged"), "r": run.spec.workload.adapter.r}
    return point


def _executor(run: Run) -> str:
    """The executor as tables name it: with a graph that is compiled, and with settings that are the runtime's own."""
    asked = run.spec.executor.options
    compiled = ", compiled" if asked.get("graph") == "compiled" else ""
    shipped = ", as shipped" if asked.get("settings") == "as-shipped" else ""
    return f"{run.spec.executor.kind}{compiled}{shipped}"
