"""Observations of the client in a served run, taken from its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.request import Requests
from twinlens.stats.client.arrivals import ArrivalFit, arrival_fit
from twinlens.stats.serving.latency import sent_late_s
from twinlens.stats.serving.overload import released_ns
from twinlens.stats.serving.window import LoopKind, Window

_QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of a run on its client. Arrays are over requests; NaN (or None) where nothing was recorded.

    `sent_late_s`: sent less released. `read_lag_s`: how long bytes lay before the client took them.
    `stamped_by_kernel`: whether times are those of arrival in the kernel, so that reading late changes none of them.
    `merged_reads`: reads that took several chunks at once, so that all but one lost their own
    time. `ttft_s`: quantile to time to first token, as many as the requests afford; `gap_s`: a median.
    `lost`: a finding for each of several clients that was lost.
    `clock_bound_s`: how well the clocks of clients on other machines are known.
    """

    tokens_per_s: float | None
    sent_late_s: np.ndarray
    read_lag_s: np.ndarray
    ttft_s: Mapping[float, float]
    gap_s: float | None
    chunks: int
    merged_reads: int | None = None
    stamped_by_kernel: bool = False
    arrivals: ArrivalFit | None = None
    mean_gap_s: float | None = None
    lost: tuple[Finding, ...] = ()
    clock_bound_s: float | None = None


def observe(
    requests: Requests,
    window: Window,
    metrics: dict[str, Estimate],
    *,
    loop: LoopKind,
    read_lag_ns: np.ndarray,
    merged_reads: int,
    stamped_by_kernel: bool,
) -> Observed:
    """Observations on the client, from the rows of a run.

    `metrics` are those of `serving_metrics`; `read_lag_ns` has one value a row, NaN where none was recorded. Arrivals
    are compared over the whole run, and in an open loop only: in others nobody planned them.
    """
    sent = requests.sent_ns >= requests.intended_ns
    fit = arrival_fit(released_ns(requests)[sent], requests.sent_ns[sent]) if loop == "open" else None
    offered = _value(metrics, "offered_requests_per_s")
    gap = _value(metrics, "itl_s_p50")
    return Observed(
        tokens_per_s=_value(metrics, "output_tokens_per_s"),
        sent_late_s=sent_late_s(requests, window.rows),
        read_lag_s=read_lag_ns[window.rows] / 1e9,
        ttft_s={q: wait for q in _QUANTILES if (wait := _value(metrics, f"ttft_s_p{100 * q:g}")) is not None},
        gap_s=gap if gap is not None else _value(metrics, "icl_s_p50"),
        chunks=int(requests.chunk_ns.size),
        merged_reads=merged_reads,
        stamped_by_kernel=stamped_by_kernel,
        arrivals=fit,
        mean_gap_s=1 / offered if offered and loop == "open" else None,
    )


def _value(metrics: dict[str, Estimate], name: str) -> float | None:
    return metrics[name].value if name in metrics else None
