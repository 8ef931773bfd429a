"""The summary of a served run from its rows: window, metrics, and the verdicts on server and client."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.request import Requests
from twinlens.record.run import Run
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.client.observed import observe
from twinlens.stats.client.validity import Calibration, ClientVerdict, client_verdict
from twinlens.stats.metrics.quality import fidelity
from twinlens.stats.peers.variants import variants
from twinlens.stats.server.metrics import ServerFigures, server_figures
from twinlens.stats.serving.metrics import serving_metrics
from twinlens.stats.serving.overlap import overlap
from twinlens.stats.serving.planned_hits import planned_hits
from twinlens.stats.serving.waits import waits
from twinlens.stats.serving.window import LoopKind, Window, find_window
from twinlens.stats.steady.segment import SteadyRule
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


def served(run: Run, rule: SteadyRule) -> tuple[dict[str, Estimate], Verdict, dict[str, float], ClientVerdict | None]:
    """Metrics, verdict, work done in the window (for energy), and the client's verdict where a client was recorded."""
    workload = run.spec.workload
    assert isinstance(workload, InferenceWorkload)
    # Without the waiting of points that take turns: every window, rate and wait is of the time that was its own.
    requests, loop = run.requests.own_time(), _LOOPS[workload.arrival.kind]
    window = find_window(requests, loop, rule)
    metrics = serving_metrics(requests, window, workload.slo, run.facts, _devices(run.facts))
    metrics |= fidelity(run.facts.fidelity) if run.facts else {}
    metrics |= planned_hits(run)
    metrics |= waits(requests, window.rows, run.spec.point, overlap(requests, window)) if window else {}
    if window is None:
        return metrics, nothing(), {}, None
    client = _client(run, requests, window, metrics, loop)
    metrics |= client.metrics if client else {}
    told = _told(run, requests, window)
    if told is not None:
        metrics |= told.metrics
        client = replace(client, notes=client.notes + told.notes) if client else None
    ended = (requests.end_ns >= window.begin_ns) & (requests.end_ns <= window.end_ns)
    done = ended & (requests.outcome == "ok")
    work = {
        "energy_per_request_j": float(done.sum()),
        "energy_per_output_token_j": float(requests.output_tokens[done].sum()),
    }
    return metrics, _verdict(_on_clock(window, run.requests), client), work, client


def peers(run: Run) -> dict[str, Estimate]:
    """A served run under other tools' definitions and names; empty for any other run."""
    if not is_served(run):
        return {}
    workload = run.spec.workload
    assert isinstance(workload, InferenceWorkload)
    return variants(run.requests.own_time(), workload.slo)


def nothing() -> Verdict:
    """The verdict on a run without rows."""
    return Verdict("too short", False, "there are no rows", 0, 0, 0.0, 0.0)


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
    found = Verdict(
        label=window.label,
        ranked=window.ranked,
        reason=window.reason,
        begin_row=window.first,
        end_row=window.last,
        begin_s=window.begin_ns / 1e9,
        end_s=window.end_ns / 1e9,
        disturbed=window.disturbed,
        least_visible_change=window.least_visible_change,
    )
    if client is None or client.valid:
        return found
    # What the server did cannot be told from what the client did, so that comes first.
    return replace(found, label="invalid", ranked=False, reason=" ".join(client.reasons))


def _client(
    run: Run, requests: Requests, window: Window, metrics: dict[str, Estimate], loop: LoopKind
) -> ClientVerdict | None:
    """None where no client over a network was recorded: an engine in this process has no lateness of its own.

    `client` in run.json is what the client counted, `calibration` what it did against the null server.
    """
    record: dict[str, Any] | None = run.raw.get("client")
    if record is None:
        return None
    known = run.raw.get("calibration")
    calibration = Calibration(**known) if known else None
    observed = observe(
        requests,
        window,
        metrics,
        loop=loop,
        read_lag_ns=_column(run, "lag_ns"),
        merged_reads=int(record.get("merged_reads", 0)),
        stamped_by_kernel=record.get("stamps") == "kernel",
    )
    bound_ns = record.get("clock_bound_ns")
    observed = replace(
        observed,
        lost=tuple(f"{said[:1].upper()}{said[1:]}." for said in record.get("lost", ())),
        clock_bound_s=None if bound_ns is None else bound_ns / 1e9,
    )
    return client_verdict(observed, calibration)


def _told(run: Run, requests: Requests, window: Window) -> ServerFigures | None:
    """What the server said of itself; None for a run in which nobody asked it (an engine in this process)."""
    record: dict[str, Any] | None = run.raw.get("server_metrics")
    if record is None:
        return None
    fact = run.facts.executor.facts.get("serving.max_sequences") if run.facts else None
    slots = fact.value if fact is not None and isinstance(fact.value, int) and fact.value > 0 else None
    return server_figures(run.server_samples, record, requests, window, slots)


def _column(run: Run, name: str) -> np.ndarray:
    """A column as floats, NaN where null or where the run is older than the column."""
    if name not in run.table.column_names:
        return np.full(run.table.num_rows, np.nan)
    return np.asarray(run.table.column(name).to_numpy(), dtype=float)


def _devices(facts: Facts | None) -> int | None:
    fact = facts.executor.facts.get("accelerator.count") if facts else None
    return fact.value if fact is not None and isinstance(fact.value, int) and fact.value > 0 else None
