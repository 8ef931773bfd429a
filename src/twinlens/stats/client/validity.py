"""Test that the client was fast enough for what it measured: its calibration, its lateness, its arrivals.

Pure: takes what was recorded. A run that fails here is *invalid*, whatever the server did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.stats.client.arrivals import ArrivalFit
from twinlens.stats.client.observed import Observed
from twinlens.stats.estimator.censored import censored_quantile
from twinlens.units import COUNT, RATIO, SECONDS, digits, show

# Above 70 % of what it can take a client queues by itself: at that load an M/M/1 queue is 2.3 long on average.
MOST_LOAD = 0.7
# A tenth of the thing measured: what remains is smaller than differences that anyone acts on.
MOST_LAG_SHARE = 0.1
# Where requests come closer than ten milliseconds, a millisecond is a tenth of a gap and the process another one.
MOST_LAG_S = 0.001
LAG_MATTERS_BELOW_GAP_S = 0.01
# One run in a hundred on plan may be called off plan.
LEAST_P = 0.01
# The index of dispersion of n windows scatters by √(2/n): a quarter is two errors of the fewest windows taken.
MOST_DISPERSION_CHANGE = 0.25
# A hundredth of the load: capacity planning reads no finer.
MOST_RATE_CHANGE = 0.01
# p99 of gaps looks at one in a hundred: if as many are merged by a late client, that p99 is the client's.
MOST_MERGED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Calibration:
    """The client's certificate: what it did against a server that costs nothing, on this machine, before the run.

    `ceiling_tokens_per_s`: the most it took in; `added_latency_s`: median of measured less true time to first token;
    `lag_s_p99`: how late it sent at this rate. `clients`: how many there were, all at once.
    """

    ceiling_tokens_per_s: float
    added_latency_s: float
    lag_s_p99: float
    clients: int = 1


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
    reasons = (
        *observed.lost,
        *_loaded(observed, calibration),
        *_late(observed, sent_p99),
        *_slow(observed, read_p99),
        *_off_plan(observed.arrivals),
    )
    notes = [] if calibration else ["The client was not calibrated before the run: its ceiling is not known."]
    if observed.stamped_by_kernel and not reasons and _is_large(read_p99, observed.gap_s):
        late = show(read_p99.value, SECONDS)
        notes.append(f"The client read late (p99 {late}); times are the kernel's and do not depend on it.")
    return ClientVerdict(
        not reasons, reasons, tuple(notes), {"read_lag_s_p99": read_p99} | _figures(observed, calibration)
    )


def _figures(observed: Observed, calibration: Calibration | None) -> dict[str, Estimate]:
    """The numbers behind a verdict, as metrics. No intervals: each is of this one run."""
    found: dict[str, Estimate] = {}
    if calibration is None or observed.tokens_per_s is None:
        why = "the client was not calibrated before the run" if calibration is None else "no tokens came"
        found["client_load"] = Estimate.absent(RATIO, why)
    else:
        load, method = observed.tokens_per_s / calibration.ceiling_tokens_per_s, "tokens/s / the client's ceiling"
        found["client_load"] = Estimate(load, RATIO, method, "measured")
    if observed.merged_reads is not None and observed.chunks:
        merged = min(1.0, observed.merged_reads / observed.chunks)
        method = "reads that took several chunks / chunks"
        found["merged_share"] = Estimate(merged, RATIO, method, "measured", n=observed.chunks)
    if observed.clock_bound_s is not None:
        method = "half the shortest round trip, and what the clocks drifted while it ran; the worst client's"
        found["clock_bound_s"] = Estimate(observed.clock_bound_s, SECONDS, method, "measured")
    fit = observed.arrivals
    if fit is not None:
        method = f"largest distance between planned and achieved laws of gaps, p = {digits(fit.p, 2)}"
        found["arrival_distance"] = Estimate(fit.statistic, RATIO, method, "measured", n=fit.n)
    if fit is not None and fit.achieved_dispersion is not None:
        method = f"variance / mean of counts in windows of ten gaps; planned {digits(fit.planned_dispersion or 0.0)}"
        found["arrival_dispersion"] = Estimate(fit.achieved_dispersion, COUNT, method, "measured", n=fit.n)
    return found


def _loaded(observed: Observed, calibration: Calibration | None) -> list[str]:
    if calibration is None or observed.tokens_per_s is None:
        return []
    share = observed.tokens_per_s / calibration.ceiling_tokens_per_s
    if share <= MOST_LOAD:
        return []
    return [
        f"The client took in {digits(observed.tokens_per_s)} tokens/s, {digits(100 * share, 2)} % of the "
        f"{digits(calibration.ceiling_tokens_per_s)} it can: above {100 * MOST_LOAD:.0f} % its own queue is measured."
    ]


def _late(observed: Observed, p99: Estimate) -> list[str]:
    """Sending late, against the time to first token and against the gap between requests."""
    if p99.value is None:
        return []
    bound_s = observed.clock_bound_s
    # Where another machine's clock is known only so well, its requests may have been that much later than they seem.
    late_s = p99.value + (bound_s or 0.0)
    known = f", and clocks known to {show(bound_s, SECONDS)}" if bound_s is not None else ""
    for q, ttft_s in observed.ttft_s.items():  # like with like: lateness moves each quantile by its own
        lag_s = float(np.nanquantile(np.maximum(observed.sent_late_s, 0.0), q))
        if lag_s + (bound_s or 0.0) > MOST_LAG_SHARE * ttft_s:
            late = f"Requests were sent late (p{100 * q:g} {show(lag_s, SECONDS)}{known})"
            return [f"{late}: more than {100 * MOST_LAG_SHARE:.0f} % of that quantile of the time to first token."]
    close = observed.mean_gap_s is not None and observed.mean_gap_s < LAG_MATTERS_BELOW_GAP_S
    if close and late_s > MOST_LAG_S:
        late = f"Requests were sent late (p99 {show(p99.value, SECONDS)}{known})"
        return [
            f"{late} while one was due every {show(observed.mean_gap_s, SECONDS)}: the arrivals are not those planned."
        ]
    return []


def _slow(observed: Observed, p99: Estimate) -> list[str]:
    """Reading late, which moves times unless the kernel stamped them, and merges chunks in either case."""
    if not _is_large(p99, observed.gap_s):
        return []
    late = f"The client read answers late (p99 {show(p99.value, SECONDS)}, "
    late += f"more than {100 * MOST_LAG_SHARE:.0f} % of the median gap between tokens)"
    if not observed.stamped_by_kernel:
        return [f"{late}, and its times are those of reading."]
    merged = (observed.merged_reads or 0) / max(1, observed.chunks)
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
        found.append(
            f"Requests came in bursts: index of dispersion {digits(after)} where {digits(before)} was planned."
        )
    return found


def _is_large(p99: Estimate, against_s: float | None) -> bool:
    return p99.value is not None and against_s is not None and p99.value > MOST_LAG_SHARE * against_s


def _p99(values: np.ndarray, why_not: str) -> Estimate:
    """p99; the largest value where there are too few for one, as a certificate must not wait for 368 requests."""
    known = np.maximum(values[np.isfinite(values)], 0.0)
    if not known.size:
        return Estimate.absent(SECONDS, why_not)
    found = censored_quantile(known, 0.99, unit=SECONDS, what="requests")
    if found.value is not None:
        return found
    method = "the largest value, as there are too few for a p99"
    return Estimate(float(known.max()), SECONDS, method, "measured", n=known.size)
