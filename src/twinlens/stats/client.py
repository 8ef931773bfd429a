"""Checks that the load generator was not the bottleneck: what the client showed in a served run, and its verdict.

Pure: takes what was recorded. A run that fails here is *invalid*, whatever the server did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy

from twinlens.record.client import Calibration
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding, Severity
from twinlens.record.request import Requests
from twinlens.stats.estimator.quantile import censored_quantile
from twinlens.stats.serving.latency import sent_late_s
from twinlens.stats.serving.window import LoopKind, Window
from twinlens.stats.steady.slope import released_ns
from twinlens.units import COUNT, RATIO, SECONDS, digits

# Above 70 % of what it can take a client queues by itself: at that load an M/M/1 queue is 2.3 long on average.
MOST_LOAD = 0.7
# A tenth of the thing measured: what remains is smaller than differences that anyone acts on.
MOST_LAG_SHARE = 0.1
# Where requests come closer than ten milliseconds, a millisecond is a tenth of a gap and the process another one.
MOST_LAG_S = 0.001
LAG_MATTERS_BELOW_GAP_S = 0.01
# Nobody waits half a second for a processor in passing: the client was stopped, or busy with something else, and the
# server had less to do meanwhile, however few the requests are that it concerns.
MOST_STILL_S = 0.5
# One run in a hundred on plan may be called off plan.
LEAST_P = 0.01
# The index of dispersion of n windows scatters by √(2/n): a quarter is two errors of the fewest windows taken.
MOST_DISPERSION_CHANGE = 0.25
# A hundredth of the load: capacity planning reads no finer.
MOST_RATE_CHANGE = 0.01
# p99 of gaps looks at one in a hundred: if as many are merged by a late client, that p99 is the client's.
MOST_MERGED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class ClientVerdict:
    """`reasons`: why the run is invalid. `notes`: what a reader should know of a valid one."""

    valid: bool
    reasons: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    metrics: dict[str, Estimate]

    @property
    def limit(self) -> Finding:
        """The finding that the client was the limit, with its reasons and the figures behind them."""
        figures = {id: figure for id, figure in self.metrics.items() if figure.value is not None}
        return Finding("client-limit", "disqualifies", evidence=figures, because=self.reasons)


def client_verdict(observed: Observed, calibration: Calibration | None) -> ClientVerdict:
    """Whether the client was good enough. Every threshold is a constant of this module, with its reason."""
    sent_p99 = _p99(observed.sent_late_s, "no request was sent")
    read_p99 = _p99(observed.read_lag_s, "this client does not record when bytes arrived")
    reasons = (
        *observed.lost,
        *_still(observed),
        *_loaded(observed, calibration),
        *_late(observed, sent_p99),
        *_slow(observed, read_p99),
        *_off_plan(observed.arrivals),
    )
    notes = [] if calibration else [Finding("not-calibrated", "notes")]
    if observed.stamped_by_kernel and not reasons and _is_large(read_p99, observed.gap_s):
        notes.append(_finding("read-late-stamped", {"late_s": read_p99.value}, "notes"))
    return ClientVerdict(
        not reasons, reasons, tuple(notes), {"read_lag_s_p99": read_p99} | _figures(observed, calibration)
    )


def _figures(observed: Observed, calibration: Calibration | None) -> dict[str, Estimate]:
    """The numbers behind a verdict, as metrics. No intervals: each is of this one run."""
    figures: dict[str, Estimate] = {}
    if calibration is None or observed.tokens_per_s is None:
        why = "the client was not calibrated before the run" if calibration is None else "no tokens came"
        figures["client_load"] = Estimate.absent(RATIO, why)
    else:
        load, method = observed.tokens_per_s / calibration.ceiling_tokens_per_s, "tokens/s / the client's ceiling"
        figures["client_load"] = Estimate(load, RATIO, method, "measured")
    if observed.merged_reads is not None and observed.chunks:
        merged = min(1.0, observed.merged_reads / observed.chunks)
        method = "reads that took several chunks / chunks"
        figures["merged_share"] = Estimate(merged, RATIO, method, "measured", n=observed.chunks)
    if observed.clock_bound_s is not None:
        method = "half the shortest round trip, and what the clocks drifted while it ran; the worst client's"
        figures["clock_bound_s"] = Estimate(observed.clock_bound_s, SECONDS, method, "measured")
    fit = observed.arrivals
    if fit is not None:
        method = f"largest distance between planned and achieved laws of gaps, p = {digits(fit.p, 2)}"
        figures["arrival_distance"] = Estimate(fit.statistic, RATIO, method, "measured", n=fit.n)
    if fit is not None and fit.achieved_dispersion is not None:
        method = f"variance / mean of counts in windows of ten gaps; planned {digits(fit.planned_dispersion or 0.0)}"
        figures["arrival_dispersion"] = Estimate(fit.achieved_dispersion, COUNT, method, "measured", n=fit.n)
    return figures


def _finding(code: str, numbers: Mapping[str, float | None], severity: Severity = "disqualifies") -> Finding:
    return Finding(code, severity, "", numbers)


def _loaded(observed: Observed, calibration: Calibration | None) -> list[Finding]:
    if calibration is None or observed.tokens_per_s is None:
        return []
    share = observed.tokens_per_s / calibration.ceiling_tokens_per_s
    if share <= MOST_LOAD:
        return []
    numbers = {
        "tokens_per_s": observed.tokens_per_s,
        "share": share,
        "ceiling_tokens_per_s": calibration.ceiling_tokens_per_s,
        "most_share": MOST_LOAD,
    }
    return [_finding("client-loaded", numbers)]


def _still(observed: Observed) -> list[Finding]:
    """One long standstill of the client, which no quantile shows in a long run."""
    lags = {"sent_late_s": observed.sent_late_s, "read_late_s": observed.read_lag_s}
    worst = {name: float(np.nanmax(values)) for name, values in lags.items() if np.isfinite(values).any()}
    if max(worst.values(), default=0.0) <= MOST_STILL_S:
        return []
    return [_finding("client-stood-still", worst | {"most_s": MOST_STILL_S})]


def _late(observed: Observed, p99: Estimate) -> list[Finding]:
    """Sending late, against the time to first token and against the gap between requests."""
    if p99.value is None:
        return []
    bound_s = observed.clock_bound_s
    # Where another machine's clock is known only so well, its requests may have been that much later than they seem.
    late_s = p99.value + (bound_s or 0.0)
    for q, ttft_s in observed.ttft_s.items():  # like with like: lateness moves each quantile by its own
        lag_s = float(np.nanquantile(np.maximum(observed.sent_late_s, 0.0), q))
        if lag_s + (bound_s or 0.0) > MOST_LAG_SHARE * ttft_s:
            of = {"late_s": lag_s, "quantile": q, "ttft_s": ttft_s, "most_share": MOST_LAG_SHARE}
            return [_finding("sent-late", of | {"clock_bound_s": bound_s})]
    close = observed.mean_gap_s is not None and observed.mean_gap_s < LAG_MATTERS_BELOW_GAP_S
    if close and late_s > MOST_LAG_S:
        of = {"late_s": p99.value, "quantile": 0.99, "gap_s": observed.mean_gap_s or 0.0}
        return [_finding("arrivals-late", of | {"clock_bound_s": bound_s})]
    return []


def _slow(observed: Observed, p99: Estimate) -> list[Finding]:
    """Reading late, which moves times unless the kernel stamped them, and merges chunks in either case."""
    if not _is_large(p99, observed.gap_s):
        return []
    late = {"late_s": p99.value, "gap_s": observed.gap_s, "most_share": MOST_LAG_SHARE}
    if not observed.stamped_by_kernel:
        return [_finding("read-late", late)]
    merged = (observed.merged_reads or 0) / max(1, observed.chunks)
    if merged <= MOST_MERGED_SHARE:
        return []
    return [_finding("chunks-merged", late | {"merged_share": merged})]


def _off_plan(fit: ArrivalFit | None) -> list[Finding]:
    if fit is None:
        return []
    findings = []
    if abs(fit.rate_ratio - 1) > MOST_RATE_CHANGE:
        findings.append(_finding("rate-off-plan", {"rate_ratio": fit.rate_ratio}))
    if fit.p < LEAST_P:
        findings.append(_finding("gaps-off-plan", {"distance": fit.statistic, "p": fit.p}))
    before, after = fit.planned_dispersion, fit.achieved_dispersion
    if before is not None and after is not None and abs(after - before) > MOST_DISPERSION_CHANGE * max(1.0, before):
        findings.append(_finding("arrivals-in-bursts", {"planned_dispersion": before, "achieved_dispersion": after}))
    return findings


def _is_large(p99: Estimate, against_s: float | None) -> bool:
    return p99.value is not None and against_s is not None and p99.value > MOST_LAG_SHARE * against_s


def _p99(values: np.ndarray, why_not: str) -> Estimate:
    """p99; the largest value where there are too few for one, as a certificate must not wait for 368 requests."""
    known = np.maximum(values[np.isfinite(values)], 0.0)
    if not known.size:
        return Estimate.absent(SECONDS, why_not)
    estimate = censored_quantile(known, 0.99, unit=SECONDS, what="requests")
    if estimate.value is not None:
        return estimate
    method = "the largest value, as there are too few for a p99"
    return Estimate(float(known.max()), SECONDS, method, "measured", n=known.size)


# Test that requests were sent as planned: the law of their gaps, their bunching, and their rate.

# A tenth of the mean gap is lateness (which has its own rule), not another arrival process.
JITTER_SHARE = 0.1
FEWEST_WINDOWS = 50  # the index of dispersion of n windows scatters by √(2/n): a fifth here
GAPS_PER_WINDOW = 10  # long enough to hold several requests, short enough to have many windows


@dataclass(frozen=True, slots=True)
class ArrivalFit:
    """How the requests that were sent compare with those planned.

    `statistic` is the Kolmogorov–Smirnov distance between the two laws of gaps, a tenth of a mean gap of jitter
    allowed; `p` how likely chance alone makes it as large. `planned_dispersion`, `achieved_dispersion`: variance over
    mean of counts in windows of ten mean gaps (1 for Poisson, 0 for constant), None with fewer than 50 windows.
    `rate_ratio`: achieved over planned rate.
    """

    statistic: float
    p: float
    planned_dispersion: float | None
    achieved_dispersion: float | None
    rate_ratio: float
    n: int


def arrival_fit(planned_ns: np.ndarray, sent_ns: np.ndarray) -> ArrivalFit | None:
    """Compares planned with achieved arrival times [n]; None for fewer than three, or all planned at one moment.

    The distance is sup over x of how far one law of gaps lies above the other shifted by the jitter: with jitter 0 it
    is that of Kolmogorov and Smirnov. Its p comes from the limit law at n/2, corrected for few gaps (Stephens 1970);
    both samples being of one plan, it errs to the side of not complaining.
    """
    planned, sent = np.sort(planned_ns).astype(np.float64), np.sort(sent_ns).astype(np.float64)
    if planned.size < 3 or planned[-1] <= planned[0]:
        return None
    a, b = np.diff(planned), np.diff(sent)
    jitter = JITTER_SHARE * float(a.mean())
    statistic = max(_above(a, b, jitter), _above(b, a, jitter))
    root = float(np.sqrt(a.size / 2))
    p = float(scipy.special.kolmogorov((root + 0.12 + 0.11 / root) * statistic))
    span = float(sent[-1] - sent[0])
    return ArrivalFit(
        statistic,
        p,
        _dispersion(planned, float(a.mean())),
        _dispersion(sent, float(a.mean())),
        float(planned[-1] - planned[0]) / span if span > 0 else float(a.size),
        planned.size,
    )


def _above(a: np.ndarray, b: np.ndarray, jitter: float) -> float:
    """The largest amount by which the share of `a` up to x - jitter exceeds that of `b` up to x."""
    x = np.sort(a) + jitter
    at_most_a = np.searchsorted(np.sort(a), x - jitter, side="right") / a.size
    return float(np.max(at_most_a - np.searchsorted(np.sort(b), x, side="right") / b.size, initial=0.0))


def _dispersion(times: np.ndarray, mean_gap: float) -> float | None:
    """Variance over mean of the counts in windows of ten planned mean gaps."""
    windows = int((times[-1] - times[0]) / (GAPS_PER_WINDOW * mean_gap))
    if windows < FEWEST_WINDOWS:
        return None
    edges = times[0] + np.arange(windows + 1) * GAPS_PER_WINDOW * mean_gap
    counts = np.histogram(times, edges)[0]
    return float(counts.var(ddof=1) / counts.mean()) if counts.any() else None


# Observations of the client in a served run, taken from its rows.

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
