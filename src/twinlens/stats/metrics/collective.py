"""Exchanges between ranks: metrics as pure functions of their rows. Bandwidths are those of nccl-tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.step import Exchanges
from twinlens.spec.workload.collective import CollectiveWorkload
from twinlens.stats.estimator.quantile import quantile
from twinlens.stats.estimator.rate import rate_interval
from twinlens.stats.estimator.scaled import scaled
from twinlens.stats.estimator.series import Series
from twinlens.stats.steady.segment import Steadiness, SteadyRule, segment
from twinlens.stats.steady.sustained import peak_rate, retention
from twinlens.units import BYTES_PER_S, EXCHANGES_PER_S, SECONDS

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


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
