"""Metrics of engine-level inference and of exchanges between ranks, from their rows.

Definitions (words.md): TTFT from the intended time to the first token; TPOT = (end - first token) / (tokens - 1), one
value per request; ITL = gaps between consecutive tokens, pooled. Requests of one lockstep batch are one observation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.request import UNCOUNTED, Requests
from twinlens.record.step import Exchanges
from twinlens.spec.workload.workload import CollectiveWorkload
from twinlens.stats.estimator.quantile import Censored, censored_quantile, quantile
from twinlens.stats.estimator.rate import Series, rate_interval
from twinlens.stats.estimator.ratio import of_ceiling
from twinlens.stats.estimator.repeats import inverse, scaled
from twinlens.stats.metrics.energy import memory
from twinlens.stats.metrics.fidelity import fidelity
from twinlens.stats.serving.latency import gaps_s, latency
from twinlens.stats.steady.levels import SteadyRule
from twinlens.stats.steady.segment import Steadiness, peak_rate, retention, segment
from twinlens.units import (
    BYTES_PER_S,
    EXCHANGES_PER_S,
    FLOP_PER_S,
    IMAGES_PER_S,
    RATIO,
    REQUESTS_PER_S,
    SECONDS,
    TOKENS_PER_S,
)

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def inference_steadiness(requests: Requests, rule: SteadyRule = SteadyRule()) -> tuple[np.ndarray, Steadiness | None]:
    """The first row of each batch (indexes), and the verdict on the batches' time per unit of work."""
    heads = batch_heads(requests)
    if not heads.size:
        return heads, None
    ends = requests.end_ns[heads]
    durations = np.diff(ends, prepend=requests.intended_ns[heads[:1]]) / 1e9
    # Prefill costs too: a batch's size in tokens is its input and its output, so uneven lengths are no noise.
    size = np.maximum(1, requests.input_tokens[heads] + requests.output_tokens[heads])
    even = np.all(size == size[0])
    return heads, segment(np.maximum(durations, 1e-9), work=None if even or np.isnan(size).any() else size, rule=rule)


def batch_heads(requests: Requests) -> np.ndarray:
    """The first row of each batch (indexes), in the order in which they ended."""
    _, heads = np.unique(requests.group, return_index=True)
    return np.asarray(heads[np.argsort(requests.end_ns[heads], kind="stable")])


def inference_metrics(
    requests: Requests, heads: np.ndarray, steadiness: Steadiness | None, facts: Facts | None
) -> dict[str, Estimate]:
    """All metrics of one inference run; `heads` and `steadiness` are those of `inference_steadiness`."""
    metrics = dict(memory(facts.memory)) if facts else {}
    metrics |= fidelity(facts.fidelity, facts.compared) if facts else {}
    if steadiness is None:
        return metrics
    inside = heads[steadiness.steady_begin : steadiness.steady_end]
    member = np.isin(requests.group, requests.group[inside])
    metrics["failed_share"] = _failed(~requests.ok[member])
    return metrics | _rates(requests, inside, steadiness, heads) | _times(requests, inside, heads, facts)


def _rates(requests: Requests, inside: np.ndarray, steadiness: Steadiness, heads: np.ndarray) -> dict[str, Estimate]:
    """Rates over batches: the requests of one batch end together and are one observation."""
    size = len(requests) / len(heads)
    begin, end = requests.intended_ns[inside], requests.end_ns[inside]
    served = _per_batch(requests, inside, np.ones(len(requests)))
    if not requests.output_tokens.any():
        rate = rate_interval(served, begin, end, unit=IMAGES_PER_S)
        return {"inference_images_per_s": rate} | _kept(rate, "peak_inference_images_per_s", steadiness, size)
    tokens = _per_batch(requests, inside, requests.output_tokens)
    rate = rate_interval(tokens, begin, end, unit=TOKENS_PER_S)
    rates = {
        "output_tokens_per_s": rate,
        "requests_per_s": rate_interval(served, begin, end, unit=REQUESTS_PER_S),
    }
    if np.ptp(requests.output_tokens[heads]) or np.ptp(requests.input_tokens[heads]):
        uneven = "requests differ in length, so the best window would be the one of the shortest"
        return rates | {
            "peak_output_tokens_per_s": Estimate.absent(TOKENS_PER_S, uneven),
            "retention": Estimate.absent(RATIO, uneven),
        }
    return rates | _kept(rate, "peak_output_tokens_per_s", steadiness, float(requests.output_tokens[heads[0]]) * size)


def _kept(rate: Estimate, peak_name: str, steadiness: Steadiness, per_batch: float) -> dict[str, Estimate]:
    """The peak beside the sustained rate, and what is retained. Windows count batches of `per_batch` units of work."""
    peak = peak_rate(steadiness, unit=rate.unit)
    batches = scaled(rate, 1 / per_batch, rate.unit, "in batches", "measured")
    return {
        peak_name: scaled(peak, per_batch, rate.unit, "batches × work of one", "measured"),
        "retention": retention(batches, steadiness),
    }


def _per_batch(requests: Requests, inside: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """Sum of `amount` over the answered requests of each batch whose first row is in `inside`."""
    groups, member = np.unique(requests.group, return_inverse=True)
    totals = np.bincount(member, np.where(requests.ok, amount, 0), len(groups))
    return np.asarray(totals[member[inside]])


def _times(requests: Requests, inside: np.ndarray, heads: np.ndarray, facts: Facts | None) -> dict[str, Estimate]:
    """Latencies of all requests of the window, in which a failed one is slower than any; rates of what was answered."""
    ok, begin = requests.ok[inside], requests.intended_ns[inside]
    if not requests.output_tokens.any():
        return _quantiles("e2e_latency_s", np.where(ok, (requests.end_ns[inside] - begin) / 1e9, np.inf))
    times, good = latency(requests, inside), inside[ok]
    metrics = _quantiles("e2e_latency_s", times.e2e_s)
    if not good.size:
        return metrics
    metrics |= _quantiles("ttft_s", times.ttft_s)
    batch = len(requests) / len(heads)
    metrics["prefill_tokens_per_s"] = _prefill_rate(requests.input_tokens[good] * batch, metrics["ttft_s_p50"])
    many = ~np.isnan(times.tpot_s)
    if times.ok[many].any():
        metrics |= _quantiles("tpot_s", times.tpot_s[many])
        metrics |= _quantiles("itl_s", gaps_s(requests, inside), "gaps")
        metrics["tokens_per_s_per_request"] = inverse(metrics["tpot_s_p50"], 1.0, TOKENS_PER_S, "1 / median TPOT")
        metrics["decode_tokens_per_s"] = inverse(metrics["tpot_s_p50"], batch, TOKENS_PER_S, "batch / median TPOT")
    uneven = len(np.unique(requests.input_tokens[good])) > 1
    return metrics | (_efficiency(metrics, facts, uneven) if facts else {})


def _prefill_rate(tokens: np.ndarray, median: Estimate) -> Estimate:
    """Prompt tokens of a batch over the time to its first token: prefill alone, whatever decode does after it."""
    if np.isnan(tokens).any():
        return Estimate.absent(TOKENS_PER_S, UNCOUNTED)
    if len(np.unique(tokens)) > 1:
        return Estimate.absent(TOKENS_PER_S, "prompts differ in length; see TTFT")
    return inverse(median, float(tokens[0]), TOKENS_PER_S, "prompt tokens of the batch / median TTFT")


_SHARES_OF_CEILINGS = (
    ("mbu", "decode_bytes", "tpot_s_p50", "read_bytes_per_s", BYTES_PER_S,
     "modelled bytes of a decode step / median TPOT"),
    ("matvec_share", "linear_bytes", "tpot_s_p50", "matvec_bytes_per_s", BYTES_PER_S,
     "bytes of linear weights / median TPOT"),
    ("prefill_mfu", "prefill_flop", "ttft_s_p50", "matrix_flop_per_s", FLOP_PER_S,
     "modelled FLOP of a prefill / median TTFT"),
)  # fmt: skip


def _efficiency(times: dict[str, Estimate], facts: Facts, uneven: bool) -> dict[str, Estimate]:
    """Decode bytes over time against the read bandwidth; prefill FLOP over time against the matrix rate.

    `uneven`: prompts differ in length. Bytes and FLOP are modelled for the longest, times are those of the median, so
    their quotient would be of no request at all; bytes of the linear weights are the same for every length.
    """
    work, ceilings, shares = facts.work, facts.ceilings, {}
    for name, of, time, ceiling, unit, method in _SHARES_OF_CEILINGS:
        if time in times and of in work and work[of].value and ceiling in ceilings:
            shares[name] = of_ceiling(inverse(times[time], work[of].value or 0.0, unit, method), ceilings[ceiling])
    for name, of in (("prefill_mfu", "prefill_flop"), ("mbu", "decode_bytes")):
        if of in work and work[of].value is None and ceilings:
            shares[name] = Estimate.absent(RATIO, work[of].reason or "")
    if uneven:
        absent = Estimate.absent(RATIO, "prompts differ in length, and the work is modelled for the longest only")
        shares |= {name: absent for name in ("mbu", "prefill_mfu") if name in shares}
    return shares


def _quantiles(name: str, values: np.ndarray, what: str = "requests") -> dict[str, Estimate]:
    whole = Censored(values)
    return {f"{name}_{q}": censored_quantile(whole, at, unit=SECONDS, what=what) for q, at in _QUANTILES.items()}


def _failed(failed: np.ndarray) -> Estimate:
    share = float(failed.mean()) if len(failed) else 0.0
    return Estimate(
        share,
        RATIO,
        "requests not answered in full / all requests of the window",
        "measured",
        n=len(failed),
    )


# Exchanges between ranks: metrics as pure functions of their rows. Bandwidths are those of nccl-tests.


def exchange_steadiness(rows: Exchanges, rule: SteadyRule = SteadyRule()) -> Steadiness | None:
    """The verdict on the slowest rank's times, in order; None without rows.

    `rule.min_seconds` are of the clock, of which exchanges are a part: a barrier is before each.
    """
    if not len(rows):
        return None
    taken_s = rows.slowest_ns / 1e9
    share = taken_s.sum() * 1e9 / max(1, int(rows.end_ns[-1]) - int(rows.begin_ns[0]))
    return segment(taken_s, rule=replace(rule, min_seconds=rule.min_seconds * min(1.0, share)))


def exchange_metrics(
    rows: Exchanges, steadiness: Steadiness | None, workload: CollectiveWorkload
) -> dict[str, Estimate]:
    """Rates are over the time spent in exchanges: the barrier before each is in none."""
    if steadiness is None:
        return {}
    taken = rows.slowest_ns[steadiness.steady_begin : steadiness.steady_end]
    clock = np.concatenate([[0], np.cumsum(taken)])
    name = "exchanges / the slowest rank's time in them"
    rate = rate_interval(np.ones(len(taken)), clock[:-1], clock[1:], unit=EXCHANGES_PER_S, name=name)
    size, ranks = workload.size_bytes, rows.rank_ns.shape[1]
    algorithm = scaled(rate, size, BYTES_PER_S, f"{size:,} bytes / mean time", "measured")
    factor = workload.bus_factor(ranks)
    said = f"algorithm bandwidth × {factor:.4g}, the factor of nccl-tests for {workload.exchange} of {ranks} ranks"
    bus = (
        scaled(rate, size * factor, BYTES_PER_S, said, "measured")
        if factor
        else Estimate.absent(BYTES_PER_S, "one rank exchanges nothing")
    )
    times = Series(taken / 1e9)
    return {
        "bus_bytes_per_s": bus,
        "algorithm_bytes_per_s": algorithm,
        "exchanges_per_s": rate,
        "peak_exchanges_per_s": peak_rate(steadiness, unit=EXCHANGES_PER_S),
        "retention": retention(rate, steadiness),
    } | {f"exchange_s_{q}": quantile(times, at, unit=SECONDS, in_time_order=True) for q, at in _QUANTILES.items()}
