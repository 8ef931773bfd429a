"""The summary of a served run from its rows: window, metrics, and the verdicts on server and client."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.finding import Finding
from twinlens.record.request import Requests
from twinlens.record.run import Run
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.prompt import items_per_request
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.client import ClientVerdict, client_verdict, observe
from twinlens.stats.metrics.energy import memory
from twinlens.stats.metrics.fidelity import fidelity
from twinlens.stats.peers.variants import variants
from twinlens.stats.server.metrics import ServerFigures, planned_hits, server_figures
from twinlens.stats.serving.latency import overlap, waits
from twinlens.stats.serving.looks import level_of
from twinlens.stats.serving.metrics import serving_metrics
from twinlens.stats.serving.window import LoopKind, Window, find_window
from twinlens.stats.steady.levels import SteadyRule
from twinlens.stats.summary.group import Verdict

_LOOPS: dict[str, LoopKind] = {
    "constant": "open",
    "poisson": "open",
    "gamma": "open",
    "closed": "closed",
    "single-stream": "closed",
    "offline": "whole",
    "ramp": "whole",
    "trace": "whole",
}


def is_served(run: Run) -> bool:
    """Whether requests of this run came by a schedule rather than in lockstep."""
    workload = run.spec.workload
    return isinstance(workload, InferenceWorkload) and workload.arrival.kind in _LOOPS


@dataclass(frozen=True, slots=True)
class Judged:
    """The metrics and the verdict of a run. `work`: done in the window, for energy. `client`: None where none was
    recorded.

    `server`: what the server's own figures lack, and where they and the client's differ.
    """

    metrics: dict[str, Estimate]
    verdict: Verdict
    work: dict[str, float]
    client: ClientVerdict | None = None
    server: tuple[Finding, ...] = ()


def served(run: Run, rule: SteadyRule) -> Judged:
    """The summary of a served run, from its rows."""
    workload = run.spec.workload
    assert isinstance(workload, InferenceWorkload)
    # Without the waiting of points that take turns: every window, rate and wait is of the time that was its own.
    requests, loop = run.requests.own_time(), _LOOPS[workload.arrival.kind]
    window = find_window(requests, loop, rule)
    metrics = dict(memory(run.facts.memory)) if run.facts else {}
    level = level_of(run.spec.protocol)
    metrics |= serving_metrics(requests, window, workload.slo, _devices(run.facts), workload.task, level)
    metrics |= fidelity(run.facts.fidelity, run.facts.compared) if run.facts else {}
    metrics |= planned_hits(run)
    metrics |= waits(requests, window.rows, run.spec.point, overlap(requests, window)) if window else {}
    if window is None:
        return Judged(metrics, nothing(), {})
    client = _client(run, requests, window, metrics, loop)
    metrics |= client.metrics if client else {}
    told = _server_figures(run, requests, window)
    metrics |= told.metrics if told else {}
    ended = (requests.end_ns >= window.begin_ns) & (requests.end_ns <= window.end_ns)
    done = ended & requests.ok
    work = {
        "energy_per_request_j": float(done.sum()),
        "energy_per_output_token_j": float(requests.output_tokens[done].sum()),
    }
    verdict = _verdict(_on_clock(window, run.requests), client)
    return Judged(metrics, verdict, work, client, told.notes if told else ())


def look(requests: Requests, spec: RunSpec) -> tuple[Window | None, dict[str, Estimate]]:
    """The window and the metrics of a run under load while it goes on, by the rules of its summary."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    rule = SteadyRule(min_seconds=spec.protocol.steady_s)
    window = find_window(requests, _LOOPS[workload.arrival.kind], rule)
    return window, serving_metrics(requests, window, workload.slo, None, workload.task, level_of(spec.protocol))


def peers(run: Run) -> dict[str, Estimate]:
    """A served run under other tools' definitions and names; empty for any other run."""
    if not is_served(run):
        return {}
    workload = run.spec.workload
    assert isinstance(workload, InferenceWorkload)
    alone = workload.arrival.kind == "single-stream"
    return variants(run.requests.own_time(), workload.slo, single_stream=alone)


def nothing() -> Verdict:
    """The verdict on a run without rows."""
    return Verdict("too short", "not valid", Finding("no-rows", "disqualifies"), 0, 0, 0.0, 0.0)


def _on_clock(window: Window, requests: Requests) -> Window:
    """The window with its times on the clock of the run, waiting between slices included, as the rows have them."""
    if not np.isfinite(requests.slice).any():
        return window
    order = np.argsort(requests.intended_ns, kind="stable")

    def times_s(begin: int, end: int) -> tuple[float, float]:
        rows = order[begin:end]
        return float(requests.intended_ns[rows[0]]) / 1e9, float(requests.end_ns[rows].max()) / 1e9

    begin_ns, end_ns = int(requests.intended_ns[order[window.first]]), int(requests.intended_ns[order[-1]])
    return replace(window, begin_ns=begin_ns, end_ns=end_ns, disturbed=window.disturbed.placed(times_s))


def _verdict(window: Window, client: ClientVerdict | None) -> Verdict:
    of_window = Verdict(
        label=window.label,
        validity=window.validity,
        reason=window.reason,
        begin_row=window.first,
        end_row=window.last,
        begin_s=window.begin_ns / 1e9,
        end_s=window.end_ns / 1e9,
        disturbed=window.disturbed,
        least_visible_change=window.least_visible_change,
        trend=window.trend,
    )
    if client is None or client.valid:
        return of_window
    # What the server did cannot be told from what the client did, so that comes first.
    return replace(of_window, label="invalid", validity="not valid", reason=client.limit)


def _client(
    run: Run, requests: Requests, window: Window, metrics: dict[str, Estimate], loop: LoopKind
) -> ClientVerdict | None:
    """None where no client over a network was recorded: an engine in this process has no lateness of its own."""
    record = run.sections.client
    if record is None:
        return None
    observed = observe(
        requests,
        window,
        metrics,
        loop=loop,
        read_lag_ns=_column(run, "lag_ns"),
        merged_reads=record.merged_reads,
        stamped_by_kernel=record.stamps == "kernel",
    )
    bound_ns = record.clock_bound_ns
    observed = replace(observed, lost=record.lost, clock_bound_s=None if bound_ns is None else bound_ns / 1e9)
    return client_verdict(observed, run.sections.calibration)


def _server_figures(run: Run, requests: Requests, window: Window) -> ServerFigures | None:
    """The server's figures of itself; None for a run in which nobody asked it (an engine in this process)."""
    reading = run.sections.server_metrics
    if reading is None:
        return None
    fact = run.facts.executor.facts.get("serving.max_sequences") if run.facts else None
    slots = fact.value if fact is not None and isinstance(fact.value, int) and fact.value > 0 else None
    workload = run.spec.workload
    items = items_per_request(workload.task) if isinstance(workload, InferenceWorkload) else 1
    return server_figures(run.server_samples, reading, requests, window, slots, items)


def _column(run: Run, name: str) -> np.ndarray:
    """A column as floats, NaN where null or where the run is older than the column."""
    if name not in run.table.column_names:
        return np.full(run.table.num_rows, np.nan)
    return np.asarray(run.table.column(name).to_numpy(), dtype=float)


def _devices(facts: Facts | None) -> int | None:
    fact = facts.executor.facts.get("accelerator.count") if facts else None
    return fact.value if fact is not None and isinstance(fact.value, int) and fact.value > 0 else None
