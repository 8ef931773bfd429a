"""Whether the client was good enough for what it measured: its certificate, its lateness, its arrivals.

Pure: takes what was recorded. A run that fails here is *invalid*, whatever the server did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import kolmogorov

from twinlens.record.estimate import Estimate
from twinlens.stats.quantile import quantile
from twinlens.units import SECONDS, digits, show

# Above 70 % of what it can take a client queues by itself: at that load an M/M/1 queue is 2.3 long on average.
MOST_LOAD = 0.7
# A tenth of the thing measured: what remains is smaller than differences that anyone acts on.
MOST_LAG_SHARE = 0.1
# Where requests come closer than ten milliseconds, a millisecond is a tenth of a gap and the process another one.
MOST_LAG_S = 0.001
LAG_MATTERS_BELOW_GAP_S = 0.01
# One run in a hundred on plan may be called off plan.
LEAST_P = 0.01
# A tenth of the mean gap is lateness (which has its own rule), not another arrival process.
JITTER_SHARE = 0.1
# The index of dispersion of n windows scatters by √(2/n): a quarter is two errors of the fewest windows taken.
MOST_DISPERSION_CHANGE = 0.25
_FEWEST_WINDOWS = 50
_GAPS_PER_WINDOW = 10
# A hundredth of the load: capacity planning reads no finer.
MOST_RATE_CHANGE = 0.01
# p99 of gaps looks at one in a hundred: if as many are merged by a late client, that p99 is the client's.
MOST_MERGED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Calibration:
    """The client's certificate: what it did against a server that costs nothing, on this machine, before the run.

    `ceiling_tokens_per_s`: the most it took in; `added_latency_s`: median of measured less true time to first token;
    `lag_s_p99`: how late it sent at this rate.
    """

    ceiling_tokens_per_s: float
    added_latency_s: float
    lag_s_p99: float


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


@dataclass(frozen=True, slots=True)
class Observed:
    """What a run says of its client. Arrays are over requests; NaN (or None) where nothing was recorded.

    `sent_late_s`: sent less released. `read_lag_s`: how long bytes lay before the client took them.
    `stamped_by_kernel`: whether times are those of arrival in the kernel, so that reading late changes none of them.
    `merged_chunks`: chunks whose time is that of another read with them. `ttft_s`, `gap_s`: medians measured.
    """

    tokens_per_s: float | None
    sent_late_s: np.ndarray
    read_lag_s: np.ndarray
    ttft_s: float | None
    gap_s: float | None
    chunks: int
    merged_chunks: int | None = None
    stamped_by_kernel: bool = False
    arrivals: ArrivalFit | None = None
    mean_gap_s: float | None = None


@dataclass(frozen=True, slots=True)
class ClientVerdict:
    """`reasons`: why the run is invalid, one sentence each. `notes`: what a reader should know of a valid one."""

    valid: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    metrics: dict[str, Estimate]


def client_verdict(observed: Observed, calibration: Calibration | None) -> ClientVerdict:
    """Whether the client was good enough. Every threshold is a constant of this module, with its reason."""
    sent_p99 = _p99(observed.sent_late_s, "no request was sent")
    read_p99 = _p99(observed.read_lag_s, "this client does not record when bytes arrived")
    reasons = [
        *_load(observed, calibration),
        *_late(observed, sent_p99),
        *_slow(observed, read_p99),
        *_off_plan(observed.arrivals),
    ]
    notes = [] if calibration else ["The client was not calibrated before the run: its ceiling is not known."]
    if observed.stamped_by_kernel and _is_large(read_p99, observed.gap_s):
        late = show(read_p99.value, SECONDS)
        notes.append(f"The client read late (p99 {late}); times are the kernel's and do not depend on it.")
    return ClientVerdict(
        not reasons, tuple(reasons), tuple(notes), {"send_lag_s_p99": sent_p99, "read_lag_s_p99": read_p99}
    )


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
    p = float(kolmogorov((root + 0.12 + 0.11 / root) * statistic))
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
    windows = int((times[-1] - times[0]) / (_GAPS_PER_WINDOW * mean_gap))
    if windows < _FEWEST_WINDOWS:
        return None
    edges = times[0] + np.arange(windows + 1) * _GAPS_PER_WINDOW * mean_gap
    counts = np.histogram(times, edges)[0]
    return float(counts.var(ddof=1) / counts.mean()) if counts.any() else None


def _load(observed: Observed, calibration: Calibration | None) -> list[str]:
    if calibration is None or observed.tokens_per_s is None:
        return []
    share = observed.tokens_per_s / calibration.ceiling_tokens_per_s
    if share <= MOST_LOAD:
        return []
    return [
        f"The client took in {digits(observed.tokens_per_s)} tokens/s, {digits(100 * share, 2)} % of the "
        f"{digits(calibration.ceiling_tokens_per_s)} it can: above {100 * MOST_LOAD:.0f} % its own queue is in the numbers."
    ]


def _late(observed: Observed, p99: Estimate) -> list[str]:
    """Sending late, against the time to first token and against the gap between requests."""
    if p99.value is None:
        return []
    late = f"Requests were sent late (p99 {show(p99.value, SECONDS)})"
    if _is_large(p99, observed.ttft_s):
        return [f"{late}: more than {100 * MOST_LAG_SHARE:.0f} % of the median time to first token."]
    close = observed.mean_gap_s is not None and observed.mean_gap_s < LAG_MATTERS_BELOW_GAP_S
    if close and p99.value > MOST_LAG_S:
        return [f"{late} while one was due every {show(observed.mean_gap_s, SECONDS)}: the arrivals are not those planned."]
    return []


def _slow(observed: Observed, p99: Estimate) -> list[str]:
    """Reading late, which moves times unless the kernel stamped them, and merges chunks in either case."""
    if not _is_large(p99, observed.gap_s):
        return []
    late = f"The client read answers late (p99 {show(p99.value, SECONDS)}, "
    late += f"more than {100 * MOST_LAG_SHARE:.0f} % of the median gap between tokens)"
    if not observed.stamped_by_kernel:
        return [f"{late}, and its times are those of reading."]
    merged = (observed.merged_chunks or 0) / max(1, observed.chunks)
    if merged <= MOST_MERGED_SHARE:
        return []
    return [f"{late} and merged {digits(100 * merged, 2)} % of the chunks, whose own times are lost."]


def _off_plan(fit: ArrivalFit | None) -> list[str]:
    if fit is None:
        return []
    found = []
    if abs(fit.rate_ratio - 1) > MOST_RATE_CHANGE:
        found.append(f"Requests were sent at {digits(100 * fit.rate_ratio)} % of the planned rate.")
    if fit.p < LEAST_P:
        found.append(
            "The gaps between requests are not those planned (Kolmogorov–Smirnov distance "
            f"{digits(fit.statistic)}, p = {digits(fit.p, 2)})."
        )
    before, after = fit.planned_dispersion, fit.achieved_dispersion
    if before is not None and after is not None and abs(after - before) > MOST_DISPERSION_CHANGE * max(1.0, before):
        found.append(f"Requests came in bursts: index of dispersion {digits(after)} where {digits(before)} was planned.")
    return found


def _is_large(p99: Estimate, against_s: float | None) -> bool:
    return p99.value is not None and against_s is not None and p99.value > MOST_LAG_SHARE * against_s


def _p99(values: np.ndarray, why_not: str) -> Estimate:
    """p99; the largest value where there are too few for one, as a certificate must not wait for 368 requests."""
    known = np.maximum(values[np.isfinite(values)], 0.0)
    if not known.size:
        return Estimate.absent(SECONDS, why_not)
    found = quantile(known, 0.99, unit=SECONDS, in_time_order=True)
    if found.value is not None:
        return found
    method = "the largest value, as there are too few for a p99"
    return Estimate(float(known.max()), SECONDS, method, "measured", n=known.size)
