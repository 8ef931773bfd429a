"""Kinds of rows: steps of training, requests of inference, exchanges between ranks, and what a run of each comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from twinlens.record.column import spans_of
from twinlens.record.request import Requests
from twinlens.record.run import Run
from twinlens.record.step import Exchanges, Steps
from twinlens.spec.point import FROM_LOG
from twinlens.spec.precision import Lens
from twinlens.spec.workload.workload import CollectiveWorkload, Folder, InferenceWorkload, TrainingWorkload
from twinlens.stats.finding.causes import Pace
from twinlens.stats.metrics.inference import (
    batch_heads,
    exchange_metrics,
    exchange_steadiness,
    inference_metrics,
    inference_steadiness,
)
from twinlens.stats.metrics.training import training_metrics, training_steadiness
from twinlens.stats.paired.slice_rate import Rates, inference_slices, phase_slices, training_slices
from twinlens.stats.steady.levels import SteadyRule
from twinlens.stats.steady.segment import Steadiness
from twinlens.stats.summary.group import Verdict
from twinlens.stats.summary.serving import Judged, is_served, nothing, served
from twinlens.stats.wall_time import goodput, save_metrics

Spans = list[tuple[float, float]]
"""Begin and end of each, in seconds from the start of the run."""


@dataclass(frozen=True, slots=True)
class RowKind:
    """One kind of row. `judged`: the metrics and the verdict of a run of them. `steadiness`: of their table so far.

    `turns`: when the run worked where points took turns. `aside`: what its rate leaves out, and so its energy does.
    `pace`: how fast its rows went, for the search for causes; None where too few ended well. `slices`, `phases`: rates
    of a run's slices, and of one phase of requests in each. `point`: the operating point as tables name it, from that
    of the spec. `by_ranks`: processes below the one that measures may do the work.
    """

    judged: Callable[[Run, SteadyRule], Judged]
    steadiness: Callable[[pa.Table, SteadyRule], Steadiness | None]
    turns: Callable[[Run], Spans]
    aside: Callable[[Run], Spans]
    pace: Callable[[Run], Pace | None]
    slices: Callable[[Run], Rates]
    phases: Callable[[Run], Rates]
    point: Callable[[Run, dict[str, Any]], dict[str, Any]]
    by_ranks: bool


def row_kind(run: Run) -> RowKind:
    """The kind of a run's rows."""
    return ROW_KINDS[run.lens]


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


def _judged_steps(run: Run, rule: SteadyRule) -> Judged:
    assert isinstance(run.spec.workload, TrainingWorkload)
    only, steadiness = training_steadiness(run.steps, rule)
    metrics = training_metrics(run.steps, only, steadiness, run.spec.workload, run.facts)
    metrics |= goodput(run)
    if run.sections.checkpoints is not None:
        metrics |= save_metrics(run.sections.checkpoints, run.steps.where(run.steps.kind == "step"))
    if run.spec.executor.kind == FROM_LOG:  # step times, losses and counts are its words, whoever started the trainer
        said = {name: replace(each, origin="quoted") for name, each in metrics.items() if each.value is not None}
        metrics = metrics | said
    if steadiness is None:
        return Judged(metrics, nothing(), {})
    trained = np.flatnonzero((run.steps.kind == "step") & (run.steps.tag != "repeat"))
    rows = trained[steadiness.steady_begin : steadiness.steady_end]
    work = {"energy_per_step_j": float(len(rows)), "energy_per_token_j": float(run.steps.tokens[rows].sum())}
    return Judged(metrics, verdict_of(steadiness, run.steps.begin_ns[trained], run.steps.end_ns[trained]), work)


def _judged_requests(run: Run, rule: SteadyRule) -> Judged:
    """Requests that came by a schedule have a window of time; those in lockstep have batches, judged as rows."""
    if is_served(run):
        return served(run, rule)
    requests, own = run.requests, run.requests.own_time()
    heads, steadiness = inference_steadiness(own, rule)
    metrics = inference_metrics(own, heads, steadiness, run.facts)
    if steadiness is None:
        return Judged(metrics, nothing(), {})
    inside = np.isin(requests.group, requests.group[heads[steadiness.steady_begin : steadiness.steady_end]])
    done = inside & requests.ok
    work = {
        "energy_per_request_j": float(done.sum()),
        "energy_per_output_token_j": float(requests.output_tokens[done].sum()),
    }
    return Judged(metrics, verdict_of(steadiness, requests.intended_ns[heads], requests.end_ns[heads]), work)


def _judged_exchanges(run: Run, rule: SteadyRule) -> Judged:
    assert isinstance(run.spec.workload, CollectiveWorkload)
    rows = run.exchanges
    steadiness = exchange_steadiness(rows, rule)
    metrics = exchange_metrics(rows, steadiness, run.spec.workload)
    verdict = nothing() if steadiness is None else verdict_of(steadiness, rows.begin_ns, rows.end_ns)
    return Judged(metrics, verdict, {})


def _seconds(begin_ns: np.ndarray, end_ns: np.ndarray) -> Spans:
    return [(begin / 1e9, end / 1e9) for begin, end in zip(begin_ns.tolist(), end_ns.tolist(), strict=True)]


def _turns(slices: np.ndarray, begin_ns: np.ndarray, end_ns: np.ndarray) -> Spans:
    known = np.isfinite(slices)
    _, begins, ends = spans_of(*(column[known] for column in (slices, begin_ns, end_ns)))
    return _seconds(begins, ends)


def _not_trained(steps: Steps) -> Spans:
    """When training looked at held-out data or recovered."""
    looks = steps.where((steps.kind != "step") | (steps.tag == "repeat"))
    return _seconds(looks.begin_ns, looks.end_ns)


def _pace_of_requests(run: Run) -> Pace | None:
    workload = run.spec.workload
    assert isinstance(workload, InferenceWorkload)
    return _pace_of_batches(run.requests) if workload.arrival.kind == "lockstep" else _pace_of_served(run.requests)


def _pace_of_exchanges(rows: Exchanges) -> Pace | None:
    return _pace(rows.begin_ns, rows.begin_ns + rows.slowest_ns, np.ones(len(rows)))


def _pace_of_steps(steps: Steps) -> Pace | None:
    steps_only = np.flatnonzero(steps.kind == "step")
    work = np.where(steps.tokens[steps_only] > 0, steps.tokens[steps_only], steps.samples[steps_only])
    return _pace(steps.begin_ns[steps_only], steps.end_ns[steps_only], work, steps.tag[steps_only] == "compile")


def _pace_of_batches(requests: Requests) -> Pace | None:
    if not len(requests):
        return None
    heads = batch_heads(requests)
    ends = requests.end_ns[heads]
    begins = np.concatenate([requests.intended_ns[heads[:1]], ends[:-1]])
    return _pace(begins, ends, requests.input_tokens[heads] + requests.output_tokens[heads])


def _pace_of_served(requests: Requests) -> Pace | None:
    served = np.flatnonzero(requests.ok)
    return _pace(requests.intended_ns[served], requests.end_ns[served], requests.output_tokens[served])


def _pace(begin_ns: np.ndarray, end_ns: np.ndarray, work: np.ndarray, tagged: np.ndarray | None = None) -> Pace | None:
    long = (end_ns > begin_ns) & (work > 0)
    if long.sum() < 2:
        return None
    begin, end, done = (array[long].astype(np.float64) for array in (begin_ns, end_ns, work))
    tags = np.zeros(begin.size, bool) if tagged is None else np.asarray(tagged[long], bool)
    return Pace(begin, end, np.log(end - begin) - np.log(done), tags)


def _point_of_steps(run: Run, point: dict[str, Any]) -> dict[str, Any]:
    workload = run.spec.workload
    assert isinstance(workload, TrainingWorkload)
    point.pop("batch", None)  # the training workload says its own batch
    if (saves := workload.checkpoint) is not None:
        point["saves"] = f"{saves.mode}/{saves.every_steps}"
    if isinstance(workload.data, Folder):
        point["workers"] = workload.data.workers
    # Method and rank where an adapter is trained; nothing where all weights are, as in every run of before.
    adapter = workload.trained_adapter
    trained = {} if adapter is None else {"method": workload.method, "r": adapter.r}
    return point | {"global_batch": workload.global_batch, "seq_len": workload.seq_len} | trained


def _point_of_requests(run: Run, point: dict[str, Any]) -> dict[str, Any]:
    point.pop("microbatch", None)
    assert isinstance(run.spec.workload, InferenceWorkload)
    if run.spec.workload.adapter is not None:
        point |= {"adapter": run.spec.executor.options.get("adapter", "unmerged"), "r": run.spec.workload.adapter.r}
    return point


def _point_of_exchanges(run: Run, point: dict[str, Any]) -> dict[str, Any]:
    assert isinstance(run.spec.workload, CollectiveWorkload)
    point.pop("batch", None)
    return point | {"size_bytes": run.spec.workload.size_bytes}


STEPS = RowKind(
    judged=_judged_steps,
    steadiness=lambda table, rule: training_steadiness(Steps.from_table(table), rule)[1],
    turns=lambda run: _turns(run.steps.slice, run.steps.begin_ns, run.steps.end_ns),
    aside=lambda run: _not_trained(run.steps),
    pace=lambda run: _pace_of_steps(run.steps),
    slices=lambda run: training_slices(run.steps, run.telemetry),
    phases=lambda run: {},
    point=_point_of_steps,
    by_ranks=True,
)
REQUESTS = RowKind(
    judged=_judged_requests,
    steadiness=lambda table, rule: inference_steadiness(Requests.from_table(table), rule)[1],
    turns=lambda run: _turns(run.requests.slice, run.requests.intended_ns, run.requests.end_ns),
    aside=lambda run: [],
    pace=_pace_of_requests,
    slices=lambda run: inference_slices(run.requests, run.telemetry, in_lockstep=not is_served(run)),
    phases=lambda run: phase_slices(run.requests, run.telemetry, in_lockstep=not is_served(run)),
    point=_point_of_requests,
    by_ranks=False,
)
EXCHANGES = RowKind(
    judged=_judged_exchanges,
    steadiness=lambda table, rule: exchange_steadiness(Exchanges.from_table(table), rule),
    turns=lambda run: [],  # exchanges take no turns
    aside=lambda run: [],
    pace=lambda run: _pace_of_exchanges(run.exchanges),
    slices=lambda run: {},
    phases=lambda run: {},
    point=_point_of_exchanges,
    by_ranks=True,
)
ROW_KINDS: dict[Lens, RowKind] = {"training": STEPS, "inference": REQUESTS, "collective": EXCHANGES}
"""By what a run folder and a spec call the lens: exchanges are a third kind of row, and belong to either lens."""
