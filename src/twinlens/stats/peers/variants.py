"""The same rows under other tools' definitions and names, so that a result can be put beside theirs.

None of these is what we report: they count from sending (but MLPerf's), leave failures out, take every request of the
run from the first sent to the last drained, print any percentile of any n, and but for GuideLLM (95 %, since 0.8.1)
give no interval. Read from the sources
of vLLM (benchmarks/serve.py), GuideLLM 0.8 (schemas/request_stats.py, schemas/statistics.py), AIPerf 0.13 (its metrics
reference), MLPerf LoadGen (results.cc, logging.cc, early_stopping.cc), genai-bench, and inference-perf, which GKE uses.
s scheduled, a sent, f first token, l last token, e end, n output tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.spec.slo import Slo
from twinlens.stats.peers.names import MILLISECONDS, PEER_ROWS, PeerRow
from twinlens.units import REQUESTS_PER_S

_NO_STREAM = Estimate.absent(
    MILLISECONDS, "LoadGen estimates by early stopping for a single stream; of a server it is a test, passed or not"
)


@dataclass(frozen=True, slots=True)
class _Given:
    """Answered requests: their values by key, seconds [answers] where they are times (gaps pooled), and counts.

    `wall_s`: first intended to last end; `sent_s`: first sent to last end. `silent`: requests without an answer;
    `lost`: those that failed.
    """

    values: dict[str, np.ndarray]
    wall_s: float
    sent_s: float
    silent: int
    lost: int


def variants(requests: Requests, slo: Slo | None = None, *, single_stream: bool = False) -> dict[str, Estimate]:
    """Every variant of one run, `peer.their_name` → a value without interval; empty for a run without tokens.

    `single_stream`: whether requests came one after another, as some figures are made of such runs only.
    """
    if not len(requests) or not requests.output_tokens.any():
        return {}
    given = _given(requests)
    return {
        f"{row.tool}.{row.name.format(word)}": _figure(row, rule, given, slo, single_stream)
        for row in PEER_ROWS
        for word, rule in row.rules.items()
        if rule != "goodput" or slo is not None
    }


def _figure(row: PeerRow, rule: str, given: _Given, slo: Slo | None, single_stream: bool) -> Estimate:
    if rule == "goodput":
        assert slo is not None
        return _goodput(given, slo, row.described)
    values, described, (kind, _, of) = given.values[row.of], row.described, rule.partition(" ")
    match kind:
        case "over":
            return rate(values.sum(), given.wall_s if of == "wall" else given.sent_s, row.unit, described)
        case "mean":
            return mean(values, described, row.unit)
        case "weighted":
            return weighted_mean(values, given.values[row.weights], described)
        case "cdf":
            return by_cdf(values, given.values[row.weights], float(of), described)
        case "adjusted":
            return adjusted(values, given.silent, int(of), described)
        case "rank" | "early" if given.lost:
            return Estimate.absent(MILLISECONDS, f"{given.lost} requests failed; MLPerf counts no run with errors")
        case "rank":
            return by_rank(values, float(of), described)
        case "early":  # LoadGen's estimate is of the latency of a single stream
            return early_stopping(values, float(of), described) if single_stream else _NO_STREAM
    return by_numpy(values, float(rule.removeprefix("p")), described, row.unit)


def _goodput(given: _Given, slo: Slo, wall: str) -> Estimate:
    limits = {"f-a": slo.ttft_s, "tpot or 0": slo.tpot_s, "l-a": slo.e2e_latency_s}
    if all(limit is None for limit in limits.values()):
        why = "vLLM's goodput knows limits of TTFT, TPOT and latency, and the SLO names none of these"
        return Estimate.absent(REQUESTS_PER_S, why)
    good = given.values["ones"] > 0
    for key, limit in limits.items():
        if limit is not None:
            good &= given.values[key] <= limit
    described = f"requests within every limit from sending, TPOT of one token counted as 0; {wall}"
    return rate(good.sum(), given.wall_s, REQUESTS_PER_S, described)


def _given(requests: Requests) -> _Given:
    ok = np.flatnonzero(requests.ok & (np.diff(requests.offsets) > 0))
    within = np.ones(max(0, len(requests.chunk_ns) - 1), bool)
    edges = requests.offsets[1:-1] - 1
    within[edges[(edges >= 0) & (edges < within.size)]] = False
    answered = np.repeat(requests.ok, np.diff(requests.offsets))
    within &= answered[:-1]
    last_ns = int(requests.end_ns.max())
    was_sent = requests.sent_ns >= requests.intended_ns
    first_sent = int(requests.sent_ns[was_sent].min()) if was_sent.any() else int(requests.intended_ns.min())
    scheduled, sent, end = requests.intended_ns[ok] / 1e9, requests.sent_ns[ok] / 1e9, requests.end_ns[ok] / 1e9
    first, last = requests.first_chunk_ns()[ok] / 1e9, requests.last_chunk_ns()[ok] / 1e9
    n, gaps = requests.output_tokens[ok], np.diff(requests.chunk_ns)[within] / 1e9
    many, merged = n > 1, int(np.maximum(0, requests.chunk_tokens[answered] - 1).sum())
    tpot, closed = (last - first)[many] / (n[many] - 1), (end - first)[many] / (n[many] - 1)
    values = {
        "ones": np.ones(n.size), "n": n.astype(float), "n-1": n[many] - 1.0,
        "requests": np.array([n.size]), "output": n, "tokens": n + requests.input_tokens[ok],
        "f-a": first - sent, "l-a": last - sent, "e-a": end - sent, "f-s": first - scheduled, "e-s": end - scheduled,
        "(l-a)/n": (last - sent) / np.maximum(1, n), "(e-a)/n": (end - sent) / np.maximum(1, n),
        "tpot": tpot, "1/tpot": 1 / tpot[tpot > 0], "closed tpot": closed, "1/closed tpot": 1 / closed[closed > 0],
        "tpot or 0": np.where(many, (last - first) / np.maximum(1, n - 1), 0.0),
        "gaps": gaps, "token gaps": np.concatenate([gaps, np.zeros(merged)]),
    }  # fmt: skip
    wall_s, sent_s = (last_ns - int(requests.intended_ns.min())) / 1e9, (last_ns - first_sent) / 1e9
    return _Given(values, wall_s, sent_s, len(requests) - n.size, int((~requests.ok).sum()))


# Means and percentiles by other tools' rules, without intervals.
#
# `values` are in seconds, shape (n,); in milliseconds where the unit says so, as their names do. Absent for no values.

_EARLY_STOPPING_CONFIDENCE = 0.99
_LEAST_OVER = 1  # LoadGen asks for at least one query above the estimate, hence 662 queries for a p99


def _estimate(value: float, unit: str, n: int, method: str) -> Estimate:
    return Estimate(value * (1000 if unit == MILLISECONDS else 1), unit, method, "measured", n=n)


def mean(values: np.ndarray, described: str, unit: str = MILLISECONDS) -> Estimate:
    """The plain mean of what `described` describes."""
    if not values.size:
        return _nothing(unit)
    return _estimate(float(values.mean()), unit, values.size, f"mean of {described}; answered requests only")


def by_numpy(values: np.ndarray, percent: float, described: str, unit: str = MILLISECONDS) -> Estimate:
    """numpy's default percentile: linear between two order statistics."""
    if not values.size:
        return _nothing(unit)
    method = f"p{percent:g} of {described}, between order statistics by numpy's rule; answered requests only"
    return _estimate(float(np.percentile(values, percent)), unit, values.size, method)


def adjusted(values: np.ndarray, lost: int, percent: float, described: str) -> Estimate:
    """numpy's percentile of `values` and `lost` endless ones; absent where it falls among these."""
    n = values.size + lost
    position = (n - 1) * percent / 100
    if not values.size or math.ceil(position) >= values.size:
        return Estimate.absent(MILLISECONDS, f"it falls among the {lost} of {n} requests that failed")
    ordered = np.sort(values)
    low, high = float(ordered[math.floor(position)]), float(ordered[math.ceil(position)])
    rule = "of all requests, endless where one failed; between order statistics by numpy's rule"
    method = f"p{percent:g} of {described}, {rule}"
    return _estimate(low + (high - low) * (position - math.floor(position)), MILLISECONDS, n, method)


def weighted_mean(values: np.ndarray, weights: np.ndarray, described: str) -> Estimate:
    """The mean with weights, which the words of `described` name."""
    if not values.size:
        return _nothing(MILLISECONDS)
    mean = float(np.average(values, weights=weights))
    return _estimate(mean, MILLISECONDS, values.size, f"mean of {described}; answered requests only")


def by_cdf(values: np.ndarray, weights: np.ndarray, q: float, described: str) -> Estimate:
    """The smallest value at which the weighted share of values reaches q."""
    if not values.size:
        return _nothing(MILLISECONDS)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    position = min(int(np.searchsorted(reached, q - 1e-12)), values.size - 1)
    method = f"p{100 * q:g} of {described}, first value to reach the share; answered requests only"
    return _estimate(float(values[order][position]), MILLISECONDS, values.size, method)


def by_rank(values: np.ndarray, q: float, described: str) -> Estimate:
    """LoadGen's percentile: the value of rank ⌊n·q⌋, counted from 0."""
    if not values.size:
        return _nothing(MILLISECONDS)
    rank = int(values.size * q)
    method = f"p{100 * q:g} of {described}: value of rank n·q rounded down, from 0"
    return _estimate(float(np.partition(values, rank)[rank]), MILLISECONDS, values.size, method)


def early_stopping(values: np.ndarray, q: float, described: str) -> Estimate:
    """LoadGen's estimate: the t-th highest value, t the most queries above the quantile that n allows at 99 %."""
    over = most_over(values.size, q)
    if over < _LEAST_OVER:
        return Estimate.absent(MILLISECONDS, f"early stopping needs 662 queries for a p99, there are {values.size}")
    value = float(np.partition(values, values.size - over)[values.size - over])
    method = f"upper bound of p{100 * q:g} of {described} at 99 %: the {over} highest left out but one"
    return _estimate(value, MILLISECONDS, values.size, method)


def most_over(n: int, q: float) -> int:
    """The largest t with P(B <= t) <= 1 %, B binomial(n, 1 - q): 1 from 662 queries on for p99; -1 where none is."""
    over = -1
    while over + 1 < n and float(scipy.special.bdtr(over + 1, n, 1 - q)) <= 1 - _EARLY_STOPPING_CONFIDENCE + 1e-12:
        over += 1
    return over


def rate(amount: float, wall_s: float, unit: str, described: str) -> Estimate:
    """An amount over a wall time."""
    if wall_s <= 0:
        return Estimate.absent(unit, "the run has no length")
    return _estimate(float(amount) / wall_s, unit, 1, f"of answered requests / {described}")


def _nothing(unit: str) -> Estimate:
    return Estimate.absent(unit, "no request has such a value")
