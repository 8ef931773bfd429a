"""Goodput: requests within every limit of an SLO, failures counted as misses; and the fluidity of answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import scipy

from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.spec.slo import Slo, Standing
from twinlens.stats.estimator.interval import Clustering, Queue, clustering, independent_requests, mean_interval, queue
from twinlens.stats.estimator.repeats import binomial_bounds, cut, scaled
from twinlens.stats.serving.latency import Latency, in_flight_when_due
from twinlens.units import RATIO, REQUESTS_PER_S

LEVEL = 0.95
FLUID = 0.9  # an answer is fluid if it met nine deadlines in ten (Agrawal et al. 2024)
_CHUNKS_AT_ONCE = 1 << 17
_NEAR_S = 1e-6  # so close to a deadline, rounding decides, and it is the walk's
_FEW = 16  # one row in so many is walked through sooner than all are looked at for lateness
_MOST_REQUESTS = 1e7  # no run is longer
_NO_SLO = "the workload names no SLO"


def within(latency: Latency, slo: Slo) -> dict[str, np.ndarray]:
    """For each limit that is set, which requests are within it. A request that failed is within none.

    An answer of one token has no time per output token and no gap, and so keeps those limits; so does one that came at
    one moment, where such answers are few. Where they are not, nobody can say (`_unjudged`).
    """
    times = _limited(latency, slo)
    return {name: latency.ok & (times[name] <= limit) for name, limit in slo.limits().items()}


def _limited(latency: Latency, slo: Slo) -> dict[str, np.ndarray]:
    """The times that the SLO limits, shape (rows,) each; `inf` where a request failed."""
    times = {
        "ttft_s": latency.ttft_s,
        "tpot_s": np.where(latency.ok & np.isnan(latency.tpot_s), 0.0, latency.tpot_s),
        "itl_s": latency.longest_gap_s,
        "e2e_latency_s": latency.e2e_s,
    }
    return {name: times[name] for name in slo.limits()}


def goodput(
    latency: Latency,
    slo: Slo | None,
    intended_ns: np.ndarray,
    begin_ns: int,
    end_ns: int,
    closed_rate: Estimate | None = None,
    level: float = LEVEL,
) -> dict[str, Estimate]:
    """Good requests per second of the window, the share of requests that are good, and the share within each limit.

    `intended_ns` are the requests' own, in order; a request counts at the moment it was intended. `closed_rate`: of
    answers, in a closed loop, where the rate is a result and not what was asked.
    """
    if slo is None:
        return {
            "goodput_per_s": Estimate.absent(REQUESTS_PER_S, _NO_SLO),
            "slo_attainment": Estimate.absent(RATIO, _NO_SLO),
        }
    times = {name: clustering(values) for name, values in _limited(latency, slo).items()}
    each = within(latency, slo)
    good = np.logical_and.reduce(list(each.values()))
    waiting = queue(in_flight_when_due(intended_ns / 1e9, intended_ns / 1e9 + latency.e2e_s))
    limits = ", ".join(f"{name} ≤ {limit:g}" for name, limit in slo.limits().items())
    attained = share(good, f"requests within all limits ({limits}) / all requests of the window", times, level, waiting)
    return (
        {
            "goodput_per_s": _good_rate(attained, _came(intended_ns, begin_ns, end_ns), closed_rate),
            "slo_attainment": attained,
        }
        | {
            f"{name}_within": share(
                kept,
                f"requests with {name} ≤ {slo.limits()[name]:g} / all requests of the window",
                {name: times[name]},
                level,
                waiting,
            )
            for name, kept in each.items()
        }
        | _unjudged(latency, slo)
    )


def _unjudged(latency: Latency, slo: Slo) -> dict[str, Estimate]:
    """The figures that nobody can say where answers came whole and the SLO limits the time between tokens: the shares
    within those limits, and what takes all limits together."""
    limits = between_tokens(slo)
    if not limits or not latency.why_unstreamed:
        return {}
    why = f"{latency.why_unstreamed}, so the limit of {' and '.join(limits)} cannot be judged"
    shares = {name: Estimate.absent(RATIO, why) for name in ("slo_attainment", *(f"{each}_within" for each in limits))}
    return shares | {"goodput_per_s": Estimate.absent(REQUESTS_PER_S, why)}


def between_tokens(slo: Slo) -> tuple[str, ...]:
    """The limits of an SLO on the time between tokens."""
    return tuple(name for name in ("tpot_s", "itl_s") if name in slo.limits())


def share(
    hits: np.ndarray,
    method: str,
    times: Mapping[str, np.ndarray | Clustering] | None = None,
    level: float = 0.95,
    in_flight: Queue | None = None,
) -> Estimate:
    """The share of hits [n] in time order, with the exact binomial interval (Clopper & Pearson 1934).

    On the number of independent requests, read from the hits, from the `times` [n] by name that decide them and from
    the number `in_flight` [n] when each was due. Without interval where all requests are alike: misses that come in
    bursts are in few runs, and a run without one cannot know.
    """
    if not hits.size:
        return Estimate.absent(RATIO, "there are no requests in the window")
    value = float(hits.mean())
    independent = independent_requests(hits, (times or {}).values(), in_flight)
    counted = f"{int(independent)} independent of {hits.size}"
    if value in (0.0, 1.0):
        why_not = "all requests are alike, which does not show how others cluster"
        return Estimate(value, RATIO, f"{method}, {counted}", "measured", n=int(independent), no_interval=why_not)
    low, high = binomial_bounds(value, independent, level)
    named = f"{method}, exact binomial interval, {counted}"
    exact = Estimate(value, RATIO, named, "measured", min(low, value), max(high, value), level, n=int(independent))
    return of_looks(exact)


def of_looks(asked: Estimate) -> Estimate:
    """An interval that a look asks at a higher level holds at `LEVEL` whichever look ended the run, and is shown so."""
    if asked.level is None or asked.level <= LEVEL:
        return asked
    return replace(asked, level=LEVEL, method=f"{asked.method}, each look at {asked.level:.4g}")


def slo_standing(metrics: Mapping[str, Estimate], slo: Slo, level: float = 0.95) -> Standing:
    """Whether a run meets its SLO: each limit is kept by `slo.quantile` of its requests, and that beyond doubt.

    "pass" where every share's lower bound at `level` reaches the quantile, "fail" where some upper bound does not, and
    "inconclusive" otherwise (too few requests to tell; measure longer). Equivalent to comparing each quantile's
    order-statistic interval with its limit, and answered even where the quantile falls among failures. A run in which
    every request was good passes where they are enough: a burst that it did not see is in no verdict on it.
    """
    bounds = [_bounds_at(metrics.get(f"{name}_within"), level) for name in slo.limits()]
    if any(interval is not None and interval[1] < slo.quantile for interval in bounds):
        return "fail"
    if all(interval is not None and interval[0] >= slo.quantile for interval in bounds):
        return "pass"
    return "inconclusive"


def decided_by(share: float, quantile: float, level: float = 0.95) -> float | None:
    """The independent requests at which a share within a limit decides whether it reaches a quantile; None where the
    share is so near that ten million do not."""
    low, high = 1.0, _MOST_REQUESTS
    if not _is_decided(share, quantile, high, level):
        return None
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _is_decided(share, quantile, middle, level) else (middle, high)
    return high


def _is_decided(share: float, quantile: float, independent: float, level: float) -> bool:
    least, most = binomial_bounds(share, independent, level)
    return least >= quantile or most < quantile


def _bounds_at(share: Estimate | None, level: float) -> tuple[float, float] | None:
    """A share's bounds at another level than its own, from its number of independent requests."""
    if share is None or share.value is None:
        return None
    stated = share.low is not None and share.high is not None and share.level == level
    return (share.low, share.high) if stated else binomial_bounds(share.value, share.n or 1, level)  # type: ignore[return-value]


def _came(intended_ns: np.ndarray, begin_ns: int, end_ns: int, level: float = 0.95) -> Estimate:
    """The rate at which n requests came in the window: they have n - 1 gaps between them, whose scatter is its own."""
    n = intended_ns.size
    if n < 2:
        return Estimate.absent(REQUESTS_PER_S, "one request has no rate")
    if end_ns <= begin_ns:
        return Estimate.absent(REQUESTS_PER_S, "the window has no length")
    rate, gaps = (n - 1) * 1e9 / (end_ns - begin_ns), np.diff(intended_ns)
    cv = float(gaps.std() / gaps.mean()) if gaps.any() else 0.0
    off = float(scipy.special.ndtri((1 + level) / 2)) * cv / math.sqrt(n - 1)
    how = "offered rate, normal interval of a mean gap"
    return Estimate(rate, REQUESTS_PER_S, how, "measured", rate * math.exp(-off), rate * math.exp(off), level, n)


def _good_rate(attained: Estimate, came: Estimate, closed_rate: Estimate | None) -> Estimate:
    """Requests that came per second × the share of them that is good, whose doubt is that of queues and not of counts.

    In an open loop the gaps between requests scatter as they were drawn; in a closed one the rate is a result.
    """
    if attained.value is None or came.value is None:
        return Estimate.absent(REQUESTS_PER_S, came.reason or attained.reason or "not measured")
    found = scaled(attained, came.value, REQUESTS_PER_S, "offered rate × share of good requests", "measured")
    rate = closed_rate or came
    if found.value is None or found.low is None or found.high is None:
        return found
    if rate.low is None or rate.high is None or not rate.value:
        return replace(found, low=None, high=None, level=None, no_interval=rate.lacks or "the rate has none")
    below, above = 1 - rate.low / rate.value, rate.high / rate.value - 1  # both are small, so their squares add up
    low = found.value - math.hypot(found.value - found.low, found.value * below)
    high = found.value + math.hypot(found.high - found.value, found.value * above)
    return replace(found, low=max(0.0, low), high=high)


def good_rate_of_runs(attained: Estimate, rates: Sequence[float]) -> Estimate:
    """Goodput over runs in an open loop: the share over runs × the mean rate [R] at which requests came."""
    how = "offered rate × share of good requests"
    return scaled(attained, sum(rates) / len(rates), REQUESTS_PER_S, how, "measured")


def fluidity(
    requests: Requests, rows: np.ndarray, latency: Latency, slo: Slo | None, why_not: str = ""
) -> dict[str, Estimate]:
    """The fluidity index (Agrawal et al. 2024, "Etalon", arXiv 2407.07000): the share of token deadlines that were met.

    Mean over requests, and the share of requests that are fluid (index of at least 0.9). A failed request has 0.
    `why_not`: why the mean can have no interval.
    """
    if slo is None or slo.ttft_s is None or slo.tpot_s is None:
        reason = "deadlines need an SLO with ttft_s and tpot_s"
        return {name: Estimate.absent(RATIO, reason) for name in ("fluidity_index", "fluid_share")}
    # A first chunk in time, and no gap longer than one deadline is from the next: no token can be late.
    sure = (latency.ttft_s <= slo.ttft_s - 2 * _NEAR_S) & (latency.longest_gap_s <= slo.tpot_s)
    index, other = latency.ok.astype(np.float64), np.flatnonzero(latency.ok & ~sure)
    index[other] = fluidity_index(requests, rows[other], slo.ttft_s, slo.tpot_s)
    suffix = f"; share of deadlines met, first after {slo.ttft_s:g} s, then one each {slo.tpot_s:g} s"
    fluid = f"requests with a fluidity index of at least {FLUID:g} / all requests of the window"
    return {
        "fluidity_index": cut(mean_interval(index, unit=RATIO, method_suffix=suffix, why_not=why_not), 0.0, 1.0),
        "fluid_share": share(index >= FLUID, fluid, {"fluidity_index": index}),
    }


def fluidity_index(requests: Requests, rows: np.ndarray, ttft_s: float, tpot_s: float) -> np.ndarray:
    """The share of token deadlines that each of `rows` met. Shape: (rows,).

    The first token is due `ttft_s` after the intended time, each next one `tpot_s` after the deadline before it: a
    token that is early leaves its slack to those after it. A late one misses every deadline that passes until it
    comes (at least one), and deadlines restart from it. Tokens that share a chunk come at the same moment.
    """
    if rows.size < len(requests) / _FEW:
        return _walked(requests, rows, ttft_s, tpot_s)
    index = np.ones(rows.size)
    late = np.flatnonzero(_latest_s(requests, ttft_s, tpot_s)[rows] > -_NEAR_S)
    index[late] = _walked(requests, rows[late], ttft_s, tpot_s)
    return index


def _latest_s(requests: Requests, ttft_s: float, tpot_s: float) -> np.ndarray:
    """How long after the deadlines of an answer without a miss its worst chunk came, below 0 where none was late;
    `inf` for a row without chunks. Shape: (all rows,). Some rows at a time, so that they stay in the cache."""
    offsets, latest_ns = requests.offsets, np.full(len(requests), np.inf)
    step = max(1, int(_CHUNKS_AT_ONCE * len(requests) / max(1, requests.chunk_ns.size)))
    for begin in range(0, len(requests), step):
        bounds = offsets[begin : begin + step + 1]
        part, counts = slice(int(bounds[0]), int(bounds[-1])), np.diff(bounds)
        has = counts > 0
        starts = (bounds[:-1] - bounds[0])[has]
        if not starts.size:
            continue
        tokens = requests.chunk_tokens[part]
        before = np.cumsum(tokens, dtype=np.float64) - tokens  # every chunk holds a token, as far as deadlines go
        if (tokens < 1).any():
            before = np.arange(tokens.size) + np.cumsum(np.maximum(0, tokens - 1)) - np.maximum(0, tokens - 1)
        intended_ns = requests.intended_ns[begin : begin + step][has]
        due_ns = np.repeat(intended_ns + 1e9 * ttft_s - 1e9 * tpot_s * before[starts], counts[has])
        latest_ns[begin : begin + step][has] = np.maximum.reduceat(
            requests.chunk_ns[part] - 1e9 * tpot_s * before - due_ns, starts
        )
    return latest_ns / 1e9


def _walked(requests: Requests, rows: np.ndarray, ttft_s: float, tpot_s: float) -> np.ndarray:
    """The index of `rows` token by token: deadlines restart from each miss."""
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
