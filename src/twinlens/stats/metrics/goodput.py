"""How many requests were good: within every limit of an SLO, failures counted as misses. And how fluid answers were."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import betaincinv

from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.spec.slo import Slo
from twinlens.stats.autocorrelation import autocorrelation_time
from twinlens.stats.bootstrap import rate_interval
from twinlens.stats.interval import mean_interval
from twinlens.stats.metrics.latency import Latency
from twinlens.units import RATIO, REQUESTS_PER_S

FLUID = 0.9  # an answer is fluid if it met nine deadlines in ten (Agrawal et al. 2024)
_BINS = 200
_NO_SLO = "the workload names no SLO"

Standing = Literal["pass", "fail", "inconclusive"]


def within(latency: Latency, slo: Slo) -> dict[str, np.ndarray]:
    """For each limit that is set, which requests are within it. A request that failed is within none.

    An answer of one token has no time per output token and no gap, and so keeps those limits.
    """
    times = {
        "ttft_s": latency.ttft_s,
        "tpot_s": np.where(latency.ok & np.isnan(latency.tpot_s), 0.0, latency.tpot_s),
        "itl_s": latency.longest_gap_s,
        "e2e_latency_s": latency.e2e_s,
    }
    return {name: latency.ok & (times[name] <= limit) for name, limit in slo.limits().items()}


def goodput(
    latency: Latency, slo: Slo | None, intended_ns: np.ndarray, begin_ns: int, end_ns: int
) -> dict[str, Estimate]:
    """Good requests per second of the window, the share of requests that are good, and the share within each limit.

    `intended_ns` are the requests' own, in order; a request counts at the moment it was intended.
    """
    if slo is None:
        return {
            "goodput_per_s": Estimate.absent(REQUESTS_PER_S, _NO_SLO),
            "slo_attainment": Estimate.absent(RATIO, _NO_SLO),
        }
    each = within(latency, slo)
    good = np.logical_and.reduce(list(each.values()))
    limits = ", ".join(f"{name} ≤ {limit:g}" for name, limit in slo.limits().items())
    edges = np.linspace(begin_ns, end_ns, _BINS + 1).astype(np.int64)
    counts = np.histogram(np.clip(intended_ns, begin_ns, end_ns), edges, weights=good.astype(float))[0]
    suffix = f"; good requests ({limits}) by intended time"
    return {
        "goodput_per_s": rate_interval(counts, edges[:-1], edges[1:], unit=REQUESTS_PER_S, method_suffix=suffix),
        "slo_attainment": share(good, f"requests within all limits ({limits}) / all requests of the window"),
    } | {
        f"{name}_within": share(kept, f"requests with {name} ≤ {slo.limits()[name]:g} / all requests of the window")
        for name, kept in each.items()
    }


def share(hits: np.ndarray, method: str, level: float = 0.95) -> Estimate:
    """The share of hits [n] in time order, with the exact binomial interval (Clopper & Pearson 1934).

    The number of independent requests is what their clustering leaves of n, so bursts of misses widen it.
    """
    n = hits.size
    if not n:
        return Estimate.absent(RATIO, "there are no requests in the window")
    value = float(hits.mean())
    independent = max(1.0, n / autocorrelation_time(hits.astype(float)))
    successes, tail = value * independent, (1 - level) / 2
    low = float(betaincinv(successes, independent - successes + 1, tail)) if successes > 0 else 0.0
    missed = independent - successes
    high = float(betaincinv(successes + 1, missed, 1 - tail)) if missed > 0 else 1.0
    named = f"{method}, exact binomial interval, {int(independent)} independent of {n}"
    return Estimate(value, RATIO, named, "measured", min(low, value), max(high, value), level, n=int(independent))


def standing(metrics: dict[str, Estimate], slo: Slo) -> Standing:
    """Whether a run meets its SLO: each limit is kept by `slo.quantile` of its requests, and that beyond doubt.

    "pass" where every share's lower bound reaches the quantile, "fail" where some upper bound does not, and
    "inconclusive" otherwise (too few requests to tell; measure longer). Equivalent to comparing each quantile's
    order-statistic interval with its limit, and answered even where the quantile falls among failures.
    """
    shares = [metrics.get(f"{name}_within") for name in slo.limits()]
    if any(found is not None and found.high is not None and found.high < slo.quantile for found in shares):
        return "fail"
    if all(found is not None and found.low is not None and found.low >= slo.quantile for found in shares):
        return "pass"
    return "inconclusive"


def fluidity(requests: Requests, rows: np.ndarray, latency: Latency, slo: Slo | None) -> dict[str, Estimate]:
    """The fluidity index (Agrawal et al. 2024, "Etalon", arXiv 2407.07000): the share of token deadlines that were met.

    Mean over requests, and the share of requests that are fluid (index of at least 0.9). A failed request has 0.
    """
    if slo is None or slo.ttft_s is None or slo.tpot_s is None:
        reason = "deadlines need an SLO with ttft_s and tpot_s"
        return {name: Estimate.absent(RATIO, reason) for name in ("fluidity_index", "fluid_share")}
    index = np.where(latency.ok, fluidity_index(requests, rows, slo.ttft_s, slo.tpot_s), 0.0)
    suffix = f"; share of deadlines met, first after {slo.ttft_s:g} s, then one each {slo.tpot_s:g} s"
    fluid = f"requests with a fluidity index of at least {FLUID:g} / all requests of the window"
    return {
        "fluidity_index": _clipped(mean_interval(index, unit=RATIO, method_suffix=suffix)),
        "fluid_share": share(index >= FLUID, fluid),
    }


def fluidity_index(requests: Requests, rows: np.ndarray, ttft_s: float, tpot_s: float) -> np.ndarray:
    """The share of token deadlines that each of `rows` met. Shape: (rows,).

    The first token is due `ttft_s` after the intended time, each next one `tpot_s` after the deadline before it: a
    token that is early leaves its slack to those after it. A late one misses every deadline that passes until it
    comes (at least one), and deadlines start anew from it. Tokens that share a chunk come at the same moment.
    """
    starts, counts = requests.offsets[:-1][rows], np.diff(requests.offsets)[rows]
    before = requests.intended_ns[rows].astype(np.float64)
    slack, met, missed = np.zeros(rows.size), np.zeros(rows.size), np.zeros(rows.size)
    for position in range(int(counts.max(initial=0))):
        live = np.flatnonzero(counts > position)
        at = starts[live] + position
        now = requests.chunk_ns[at].astype(np.float64)
        target = ttft_s if position == 0 else tpot_s
        spare = slack[live] + target - (now - before[live]) / 1e9
        late = spare < -1e-12  # a rounding error is not a miss
        passed = np.floor(np.maximum(-spare, 0.0) / tpot_s + 1e-9) + 1
        missed[live] += np.where(late, passed, 0)
        met[live] += ~late
        others = np.maximum(0, requests.chunk_tokens[at] - 1)
        met[live] += others
        slack[live] = np.where(late, 0.0, spare) + others * tpot_s
        before[live] = now
    total = met + missed
    return np.divide(met, total, out=np.zeros(rows.size), where=total > 0)


def _clipped(estimate: Estimate) -> Estimate:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return estimate
    return Estimate(
        estimate.value,
        estimate.unit,
        estimate.method,
        estimate.origin,
        max(0.0, estimate.low),
        min(1.0, estimate.high),
        estimate.level,
        estimate.n,
    )
