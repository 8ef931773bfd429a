"""Metrics that the server reported about itself, and the prefix hits that were planned beside those it had.

Counter 3 of the four that explain latency, batching efficiency, is here: useful tokens / (slots × steps).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.request import Requests
from twinlens.record.run import Run
from twinlens.record.samples import ServerReading
from twinlens.schedule.draw import expected_hit_share
from twinlens.spec.workload.arrival import Lockstep, Trace
from twinlens.spec.workload.prompt import Prefix
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.estimator.dependence import too_dependent
from twinlens.stats.estimator.interval import mean_interval
from twinlens.stats.estimator.rate import rate_interval
from twinlens.stats.estimator.repeats import scaled
from twinlens.stats.server.agreement import ServerRows, agreement
from twinlens.stats.serving.window import Window
from twinlens.units import COUNT, RATIO, SECONDS

_GAUGES = (("running", COUNT), ("waiting", COUNT), ("kv_use", RATIO))
# id: numerator, denominator, unit, what it is, why it is absent where the denominator did not move
_RATIOS = {
    "prefix_hit_ratio": ("prefix_hits", "prefix_queries", RATIO, "cached / looked up", "nothing was looked up"),
    "draft_acceptance": ("accepted_tokens", "draft_tokens", RATIO, "accepted / drafted", "nothing was drafted"),
    "tokens_per_iteration": ("iteration_tokens", "iterations", COUNT, "tokens / steps", "the engine made no step"),
    "server_ttft_s_mean": ("ttft_sum_s", "ttft_count", SECONDS, "sum / count", "no request had a first token"),
    "server_queue_s_mean": ("queue_sum_s", "queue_count", SECONDS, "sum / count", "no request left the queue"),
    "server_prefill_s_mean": ("prefill_sum_s", "prefill_count", SECONDS, "sum / count", "no request ended"),
    "server_decode_s_mean": ("decode_sum_s", "decode_count", SECONDS, "sum / count", "no request ended"),
    "server_e2e_s_mean": ("e2e_sum_s", "e2e_count", SECONDS, "sum / count", "no request ended"),
    "server_itl_s_mean": ("itl_sum_s", "itl_count", SECONDS, "sum / count", "no request had a second token"),
}
_NO_SLOTS = "the server does not say how many requests may run at once"
_SPECULATES = "a step with speculation makes several tokens for a slot, so tokens do not say how full the batch was"


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """`notes`: what a reader must see beside the numbers."""

    metrics: dict[str, Estimate]
    notes: tuple[Finding, ...]


def server_figures(
    samples: pa.Table, reading: ServerReading, requests: Requests, window: Window, slots: int | None, items: int = 1
) -> ServerFigures:
    """Every metric of the server's own figures, absent ones with their reason.

    `samples` has SERVER_SCHEMA. `reading`: what run.json says of it (`reason`: why there was none). `slots`:
    how many requests the server may run at once, as its facts say; None: as its page does. `items`: texts of a request.
    """
    rows = ServerRows.from_table(samples)
    if not len(rows):
        reason = reading.reason or "no reading of the metrics page succeeded"
        absent = {name: Estimate.absent(unit, reason) for name, unit in _units().items()}
        return ServerFigures(absent, (Finding("server-metrics-not-read", "notes", "", {"reason": reason}),))
    inside = rows.within(window.begin_ns, window.end_ns)
    agreed = agreement(rows, requests, items)
    metrics = (
        {key: estimate for name, unit in _GAUGES for key, estimate in _levels(inside, name, unit).items()}
        | {"server_preemptions": _count(inside, "preemptions", "preemptions")}
        | {name: _ratio(inside, *of) for name, of in _RATIOS.items()}
        | {"batching_efficiency": _batching(inside, slots)}
        | agreed.metrics
    )
    return ServerFigures(metrics, (*_lost(samples, rows, reading), *agreed.notes))


def _units() -> dict[str, str]:
    levels = {f"server_{name}_{end}": unit for name, unit in _GAUGES for end in ("mean", "max")}
    ratios = {name: of[2] for name, of in _RATIOS.items()}
    agreed = dict.fromkeys(("server_tokens_agreement", "server_requests_agreement", "server_ttft_agreement"), RATIO)
    return levels | {"server_preemptions": COUNT} | ratios | {"batching_efficiency": RATIO} | agreed


def _levels(rows: ServerRows, name: str, unit: str) -> dict[str, Estimate]:
    """A gauge's mean, over readings a fixed time apart, and its largest reading."""
    values, mean, largest = rows.known(name), f"server_{name}_mean", f"server_{name}_max"
    if not values.size:
        why = "the server does not say it" if len(rows) else "there is no reading inside the window"
        return {mean: Estimate.absent(unit, why), largest: Estimate.absent(unit, why)}
    suffix = ", readings of the metrics page"
    mean_level = mean_interval(values, unit=unit, method_suffix=suffix, why_not=too_dependent(values)[0])
    if mean_level.low is not None:
        mean_level = replace(mean_level, low=max(0.0, mean_level.low))
    method = f"the largest of {values.size} readings; a shorter peak can lie between two"
    return {mean: mean_level, largest: Estimate(float(values.max()), unit, method, "measured", n=values.size)}


def _count(rows: ServerRows, name: str, counted: str) -> Estimate:
    why = rows.why_not(name)
    if why is not None:
        return Estimate.absent(COUNT, why)
    steps = rows.steps(name)[0]
    method = f"{counted} from the first to the last reading inside the window"
    return Estimate(float(steps.sum()), COUNT, method, "measured", n=steps.size)


def _ratio(rows: ServerRows, above: str, below: str, unit: str, named: str, nothing: str) -> Estimate:
    """A ratio of two counters' differences, with the interval of a ratio over the times between readings."""
    why = rows.why_not(above, below)
    if why is not None:
        return Estimate.absent(unit, why)
    upper, lower = rows.steps(above, below)
    if lower.sum() <= 0:
        return Estimate.absent(unit, nothing)
    # The denominator takes the place of time: a rate per unit of it is the ratio, and its interval the ratio's.
    clock = np.concatenate([[0], np.cumsum(lower * 1e9)]).astype(np.int64)
    name = f"{named}, differences over {lower.size} times between readings"
    return rate_interval(np.maximum(upper, 0.0), clock[:-1], clock[1:], unit=unit, name=name)


def _batching(rows: ServerRows, slots: int | None) -> Estimate:
    """Useful tokens / (slots × steps): generated ones, of which a step yields one for each slot (drafts aside)."""
    if rows.why_not("draft_tokens") is None and rows.steps("draft_tokens")[0].sum() > 0:
        return Estimate.absent(RATIO, _SPECULATES)
    told = rows.known("slots")
    places = slots or (int(told[-1]) if told.size else None)
    counters = ("generation_tokens", "iterations", RATIO, "generated tokens / steps", "the engine made no step")
    per_step = _ratio(rows, *counters)
    if per_step.value is not None and not places:
        return Estimate.absent(RATIO, _NO_SLOTS)
    return scaled(per_step, 1 / (places or 1), RATIO, f"per slot, of {places}", "measured")


def _lost(samples: pa.Table, rows: ServerRows, reading: ServerReading) -> list[Finding]:
    """Findings on readings that failed, and on a server that was started again."""
    findings = []
    failed = samples.num_rows - len(rows)
    if failed:
        last = samples.column("error").drop_null()[-1].as_py()
        numbers = {"failed": failed, "readings": samples.num_rows, "last": last}
        findings.append(Finding("server-readings-failed", "notes", "", numbers))
    if len(rows.restarts_ns):
        moments = [moment / 1e9 for moment in rows.restarts_ns]
        findings.append(Finding("server-restarted", "notes", "", {"seen_s": moments}))
    if reading.reason:
        findings.append(Finding("server-read-no-further", "notes", "", {"reason": reading.reason}))
    return findings


# The share of prompt tokens that a prefix cache could find, beside the share that the server reports.

_METHOD = "expected of a cache that forgets nothing, from the prefixes of the workload and the requests of the run"


def planned_hits(run: Run) -> dict[str, Estimate]:
    """The planned ratio of a run whose requests share prefixes; empty for any other, sessions and traces too."""
    prefix = _prefix(run)
    count = len(run.requests) if prefix is not None else 0
    if prefix is None or not count:
        return {}
    assert isinstance(run.spec.workload, InferenceWorkload)
    share = expected_hit_share(prefix, run.spec.workload.input_tokens, count)
    return {"planned_hit_ratio": Estimate(share, RATIO, _METHOD, "modelled", n=count)}


def short_prefix(run: Run) -> tuple[Finding, ...]:
    """Whether a shared prefix is too short for the blocks in which this server caches."""
    prefix = _prefix(run)
    block = run.facts.executor.value("serving.kv_block_tokens") if run.facts else None
    if prefix is None or not isinstance(block, int) or prefix.tokens >= block:
        return ()
    return (Finding("prefix-below-block", "notes", "", {"prefix_tokens": prefix.tokens, "block_tokens": block}),)


def shared_share(run: Run) -> float | None:
    """The share of prompt tokens that the workload lets requests have in common; None for sessions and traces, which
    say it in no number."""
    workload = run.spec.workload
    if not isinstance(workload, InferenceWorkload) or workload.sessions is not None:
        return None
    if isinstance(workload.arrival, Lockstep | Trace):
        return None
    if workload.prefix is None or not len(run.requests):
        return 0.0
    return expected_hit_share(workload.prefix, workload.input_tokens, len(run.requests))


def _prefix(run: Run) -> Prefix | None:
    workload = run.spec.workload
    if not isinstance(workload, InferenceWorkload) or isinstance(workload.arrival, Lockstep | Trace):
        return None
    return workload.prefix if workload.sessions is None else None
