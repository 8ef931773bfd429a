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
from scipy.special import bdtr

from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.spec.slo import Slo
from twinlens.stats.peers.names import MILLISECONDS
from twinlens.units import REQUESTS_PER_S, SECONDS, TOKENS_PER_S

_ONE_STREAM = "LoadGen estimates by early stopping for a single stream; of a server it is a test, passed or not"


@dataclass(frozen=True, slots=True)
class _Answered:
    """Answered requests only, shape (answers,), seconds; `gaps_s` is pooled. `wall_s`: first intended to last end.

    `merged`: how many tokens came in a chunk with the one before.
    """

    scheduled_s: np.ndarray
    sent_s: np.ndarray
    first_s: np.ndarray
    last_s: np.ndarray
    end_s: np.ndarray
    output: np.ndarray
    input: np.ndarray
    gaps_s: np.ndarray
    merged: int
    wall_s: float
    client_wall_s: float

    @property
    def ttft_s(self) -> np.ndarray:
        return np.asarray(self.first_s - self.sent_s)

    @property
    def tpot_s(self) -> np.ndarray:
        """(l - f) / (n - 1) of answers with more than one token. Shape: (those,)."""
        many = self.output > 1
        return np.asarray((self.last_s - self.first_s)[many] / (self.output[many] - 1))


def variants(requests: Requests, slo: Slo | None = None, *, single_stream: bool = False) -> dict[str, Estimate]:
    """Every variant of one run, `peer.their_name` → a value without interval; empty for a run without tokens.

    `single_stream`: whether requests came one after another, as some figures are made of such runs only.
    """
    if not len(requests) or not requests.output_tokens.any():
        return {}
    answered = _answered(requests)
    figures = (
        _vllm(answered, slo)
        | _guidellm(answered)
        | _aiperf(answered, requests)
        | _mlperf(answered, requests, single_stream)
    )
    return figures | _genai_bench(answered) | _inference_perf(answered)


def _vllm(answered: _Answered, slo: Slo | None) -> dict[str, Estimate]:
    e2e = answered.last_s - answered.sent_s
    figures: dict[str, Estimate] = {}
    for name, values, described in (
        ("ttft", answered.ttft_s, "f - a"),
        ("tpot", answered.tpot_s, "(l - f) / (n - 1), n > 1"),
        ("itl", answered.gaps_s, "gaps between chunks, pooled"),
        ("e2el", e2e, "l - a"),
    ):
        figures[f"vllm.mean_{name}_ms"] = mean(values, described)
        figures[f"vllm.median_{name}_ms"] = by_numpy(values, 50, described)
        figures[f"vllm.p99_{name}_ms"] = by_numpy(values, 99, described)
    wall = "wall from the start to the last end, ramp and drain included"
    figures["vllm.request_throughput"] = rate(answered.output.size, answered.wall_s, REQUESTS_PER_S, wall)
    figures["vllm.output_throughput"] = rate(answered.output.sum(), answered.wall_s, TOKENS_PER_S, wall)
    both = answered.output.sum() + answered.input.sum()
    figures["vllm.total_token_throughput"] = rate(both, answered.wall_s, TOKENS_PER_S, wall)
    if slo is not None and not {"ttft_s", "tpot_s", "e2e_latency_s"} & set(slo.limits()):
        why = "vLLM's goodput knows limits of TTFT, TPOT and latency, and the SLO names none of these"
        figures["vllm.request_goodput"] = Estimate.absent(REQUESTS_PER_S, why)
    elif slo is not None:
        good = _vllm_good(answered, slo, e2e)
        described = f"requests within every limit from sending, TPOT of one token counted as 0; {wall}"
        figures["vllm.request_goodput"] = rate(good, answered.wall_s, REQUESTS_PER_S, described)
    return figures


def _vllm_good(answered: _Answered, slo: Slo, e2e: np.ndarray) -> int:
    tpot = np.where(answered.output > 1, (answered.last_s - answered.first_s) / np.maximum(1, answered.output - 1), 0.0)
    good = np.ones(answered.output.size, bool)
    for limit, values in ((slo.ttft_s, answered.ttft_s), (slo.tpot_s, tpot), (slo.e2e_latency_s, e2e)):
        if limit is not None:
            good &= values <= limit
    return int(good.sum())


def _guidellm(answered: _Answered) -> dict[str, Estimate]:
    """Its time per output token includes the first; both it and its ITL are weighted by tokens."""
    tpot, itl = (answered.last_s - answered.sent_s) / np.maximum(1, answered.output), answered.tpot_s
    weights = answered.output[answered.output > 1] - 1.0
    figures: dict[str, Estimate] = {}
    for name, values, weight, described in (
        ("time_to_first_token_ms", answered.ttft_s, np.ones(answered.output.size), "f - a"),
        ("time_per_output_token_ms", tpot, answered.output.astype(float), "(l - a) / n, weighted by n"),
        ("inter_token_latency_ms", itl, weights, "(l - f) / (n - 1) per request, weighted by n - 1"),
    ):
        figures[f"guidellm.{name}_mean"] = weighted_mean(values, weight, described)
        figures[f"guidellm.{name}_p50"] = by_cdf(values, weight, 0.5, described)
        figures[f"guidellm.{name}_p99"] = by_cdf(values, weight, 0.99, described)
    described = "e - a"
    figures["guidellm.request_latency_mean"] = mean(answered.end_s - answered.sent_s, described, SECONDS)
    wall = "wall from the first sent to the last end"
    figures["guidellm.requests_per_second"] = rate(answered.output.size, answered.client_wall_s, REQUESTS_PER_S, wall)
    return figures


def _aiperf(answered: _Answered, requests: Requests) -> dict[str, Estimate]:
    """Its ITL is what vLLM calls TPOT; gaps between chunks are its ICL. `adj_*` counts failures as endless."""
    figures: dict[str, Estimate] = {}
    for name, values, described in (
        ("time_to_first_token", answered.ttft_s, "f - a"),
        ("inter_token_latency", answered.tpot_s, "(latency - TTFT) / (n - 1)"),
        ("inter_chunk_latency", answered.gaps_s, "gaps between chunks, pooled"),
        ("request_latency", answered.last_s - answered.sent_s, "l - a"),
    ):
        figures[f"aiperf.{name}_avg"] = mean(values, described)
        figures[f"aiperf.{name}_p99"] = by_numpy(values, 99, described)
    lost = len(requests) - answered.output.size
    for name, values, described in (
        ("time_to_first_token", answered.ttft_s, "f - a"),
        ("request_latency", answered.last_s - answered.sent_s, "l - a"),
    ):
        for q in (50, 99):
            figures[f"aiperf.adj_{name}_p{q}"] = adjusted(values, lost, q, described)
    speed = 1 / answered.tpot_s[answered.tpot_s > 0]
    figures["aiperf.output_token_throughput_per_user_avg"] = mean(speed, "1 / ITL, mean over requests", TOKENS_PER_S)
    wall = "wall from the first sent to the last end"
    figures["aiperf.output_token_throughput"] = rate(answered.output.sum(), answered.client_wall_s, TOKENS_PER_S, wall)
    figures["aiperf.request_throughput"] = rate(answered.output.size, answered.client_wall_s, REQUESTS_PER_S, wall)
    return figures


def _mlperf(answered: _Answered, requests: Requests, single_stream: bool) -> dict[str, Estimate]:
    """From the scheduled time, as we do; percentiles are single order statistics, and a run with failures is void.

    LoadGen's estimate by early stopping is of the latency of a single stream; of a server it is a test, passed or not.
    """
    lost = int((~requests.ok).sum())
    many = answered.output > 1
    tpot = (answered.end_s - answered.first_s)[many] / (answered.output[many] - 1)
    figures: dict[str, Estimate] = {}
    for name, values, described in (
        ("ttft", answered.first_s - answered.scheduled_s, "f - s"),
        ("tpot", tpot, "(e - f) / (n - 1)"),
        ("latency", answered.end_s - answered.scheduled_s, "e - s"),
    ):
        if lost:
            why = f"{lost} requests failed; MLPerf counts no run with errors"
            void = Estimate.absent(MILLISECONDS, why)
            figures[f"mlperf.{name}_p99_ms"] = void
            continue
        figures[f"mlperf.{name}_p99_ms"] = by_rank(values, 0.99, described)
    latency = answered.end_s - answered.scheduled_s
    why = f"{lost} requests failed; MLPerf counts no run with errors" if lost else _ONE_STREAM
    none = Estimate.absent(MILLISECONDS, why)
    estimated = early_stopping(latency, 0.99, "e - s") if single_stream and not lost else none
    return figures | {"mlperf.early_stopping_latency_p99_ms": estimated}


def _genai_bench(answered: _Answered) -> dict[str, Estimate]:
    """An answer ends where its loop does: at the last event, of usage or the end, and not with the last token."""
    many = answered.output > 1
    tpot = (answered.end_s - answered.first_s)[many] / (answered.output[many] - 1)
    figures: dict[str, Estimate] = {}
    for name, values, described in (
        ("ttft", answered.ttft_s, "f - a"),
        ("tpot", tpot, "(e - f) / (n - 1)"),
        ("e2e_latency", answered.end_s - answered.sent_s, "e - a"),
    ):
        figures[f"genai_bench.{name}_mean"] = mean(values, described, SECONDS)
        figures[f"genai_bench.{name}_p99"] = by_numpy(values, 99, described, SECONDS)
    speed = 1 / tpot[tpot > 0]
    figures["genai_bench.output_inference_speed_mean"] = mean(speed, "1 / TPOT, mean over requests", TOKENS_PER_S)
    return figures


def _inference_perf(answered: _Answered) -> dict[str, Estimate]:
    """Tokens that share a chunk have gaps of 0 between them."""
    gaps_s = np.concatenate([answered.gaps_s, np.zeros(answered.merged)])
    figures: dict[str, Estimate] = {}
    for name, values, described in (
        ("time_to_first_token", answered.ttft_s, "f - a"),
        ("time_per_output_token", answered.tpot_s, "(l - f) / (n - 1)"),
        (
            "normalized_time_per_output_token",
            (answered.end_s - answered.sent_s) / np.maximum(1, answered.output),
            "(e - a) / n",
        ),
        ("inter_token_latency", gaps_s, "gaps between tokens, 0 within a chunk, pooled"),
        ("request_latency", answered.end_s - answered.sent_s, "e - a"),
    ):
        figures[f"inference_perf.{name}_mean"] = mean(values, described, SECONDS)
        figures[f"inference_perf.{name}_p99"] = by_numpy(values, 99, described, SECONDS)
    return figures


def _answered(requests: Requests) -> _Answered:
    ok = np.flatnonzero(requests.ok & (np.diff(requests.offsets) > 0))
    within = np.ones(max(0, len(requests.chunk_ns) - 1), bool)
    edges = requests.offsets[1:-1] - 1
    within[edges[(edges >= 0) & (edges < within.size)]] = False
    answered = np.repeat(requests.ok, np.diff(requests.offsets))
    within &= answered[:-1]
    last_ns = int(requests.end_ns.max())
    was_sent = requests.sent_ns >= requests.intended_ns
    first_sent = int(requests.sent_ns[was_sent].min()) if was_sent.any() else int(requests.intended_ns.min())
    return _Answered(
        scheduled_s=requests.intended_ns[ok] / 1e9,
        sent_s=requests.sent_ns[ok] / 1e9,
        first_s=requests.first_chunk_ns()[ok] / 1e9,
        last_s=requests.last_chunk_ns()[ok] / 1e9,
        end_s=requests.end_ns[ok] / 1e9,
        output=requests.output_tokens[ok],
        input=requests.input_tokens[ok],
        gaps_s=np.diff(requests.chunk_ns)[within] / 1e9,
        merged=int(np.maximum(0, requests.chunk_tokens[answered] - 1).sum()),
        wall_s=(last_ns - int(requests.intended_ns.min())) / 1e9,
        client_wall_s=(last_ns - first_sent) / 1e9,
    )


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
    while over + 1 < n and float(bdtr(over + 1, n, 1 - q)) <= 1 - _EARLY_STOPPING_CONFIDENCE + 1e-12:
        over += 1
    return over


def rate(amount: float, wall_s: float, unit: str, described: str) -> Estimate:
    """An amount over a wall time."""
    if wall_s <= 0:
        return Estimate.absent(unit, "the run has no length")
    return _estimate(float(amount) / wall_s, unit, 1, f"of answered requests / {described}")


def _nothing(unit: str) -> Estimate:
    return Estimate.absent(unit, "no request has such a value")
