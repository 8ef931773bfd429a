"""Quality beside the speed of inference: the distance of a precision from fp32, and the gate on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Compared, FidelityRow
from twinlens.record.finding import Finding
from twinlens.spec.protocol import Tolerance
from twinlens.stats.estimator.interval import FEWEST_SKEWED, mean_of_independent
from twinlens.stats.estimator.repeats import binomial_bounds, mean_of_shares
from twinlens.stats.metrics.definition import METRICS
from twinlens.units import NATS, RATIO

_LEVEL = 0.95
_DIVERGENCES = {
    "kl_nats": "KL(fp32 || this)",
    "kl_top_nats": "KL(reference || this) over the tokens that both name, all others as one,",
}
AGREEMENTS = tuple(id for id, metric in METRICS.items() if metric.tolerance == "top1_agreement")
"""Shares of tokens on which a run agrees with its reference; a run has one of them."""


def fidelity(rows: Sequence[FidelityRow], compared: Compared | None = None) -> dict[str, Estimate]:
    """Top-1 agreement, KL per token and perplexity change over the prompts; intervals over prompt means.

    `compared`: how a server over HTTP was. Of answers there is `answer_agreement` alone, of log probabilities of the
    most likely tokens `kl_top_nats` in place of KL; where nothing could be compared, top-1 agreement says why.
    """
    if not rows:
        return {"top1_agreement": Estimate.absent(RATIO, compared.reason)} if compared and compared.reason else {}
    if compared is not None and compared.how == "answers":
        return {"answer_agreement": _of_answers(rows, compared)}
    tokens = np.array([row.tokens for row in rows], float)
    agreed = np.array([row.agreed for row in rows]) / tokens
    suffix = f"; {compared.reference}, read over HTTP" if compared else ""
    metrics = {"top1_agreement": mean_of_shares(agreed, method=f", per prompt{suffix}")}
    for name, words in _DIVERGENCES.items():
        sums = [getattr(row, name) for row in rows]
        if None not in sums:
            mean = mean_of_independent(
                np.array(sums) / tokens,
                unit=NATS,
                method_suffix=f", {words} per prompt{suffix}",
                fewest=FEWEST_SKEWED,
            )
            metrics[name] = _clip(mean, 0.0, math.inf)
    if any(row.reference_nll_nats for row in rows):
        change = np.array([(r.nll_nats - r.reference_nll_nats) / max(1, r.tokens - 1) for r in rows])
        metrics["perplexity_change"] = _exponential(
            mean_of_independent(change, unit=RATIO, method_suffix=f", per prompt{suffix}", fewest=FEWEST_SKEWED)
        )
    return metrics


@dataclass(frozen=True, slots=True)
class Gate:
    """Pass or fail of a lower precision. `broken`: a finding for each limit of the tolerance that was not kept."""

    go: bool
    broken: tuple[Finding, ...]
    tolerance: Mapping[str, float]


def fidelity_gate(metrics: dict[str, Estimate], tolerance: Tolerance) -> Gate | None:
    """Pass or fail of a lower precision; None where nothing was compared."""
    if all(name not in metrics or metrics[name].value is None for name in AGREEMENTS):
        return None
    broken = []
    for name, metric in METRICS.items():
        value = metrics[name].value if metric.tolerance and name in metrics else None
        if value is None:
            continue
        limit, at_least = getattr(tolerance, metric.tolerance), metric.better == "more"
        if value < limit if at_least else value > limit:
            numbers = {"value": value, "limit": limit, "at_least": at_least}
            broken.append(Finding("out-of-tolerance", "warns", name, numbers, {name: metrics[name]}))
    return Gate(not broken, tuple(broken), tolerance.model_dump())


def _of_answers(rows: Sequence[FidelityRow], compared: Compared) -> Estimate:
    """Tokens alike / tokens said after the same text: after the first difference two answers go on from other texts.

    A token is a trial that is made while the answers are alike, so the interval is the exact binomial one.
    """
    tokens, agreed = sum(row.tokens for row in rows), sum(row.agreed for row in rows)
    if not tokens:
        return Estimate.absent(RATIO, "neither the server nor its reference answered with a token")
    share = agreed / tokens
    low, high = binomial_bounds(share, tokens, _LEVEL)
    counted = f"{tokens - agreed} partings in {tokens} tokens of greedy answers"
    method = f"{counted}, exact binomial interval; {compared.reference}"
    method += f"; no log probabilities: {compared.instead}" if compared.instead else ""
    return Estimate(share, RATIO, method, "measured", min(low, share), max(high, share), _LEVEL, len(rows))


def _clip(estimate: Estimate, least: float, most: float) -> Estimate:
    low, high = (None if b is None else min(max(b, least), most) for b in (estimate.low, estimate.high))
    return replace(estimate, low=low, high=high)


def _exponential(log_change: Estimate) -> Estimate:
    if log_change.value is None:
        return log_change
    value, low, high = (
        None if v is None else math.expm1(min(v, 700.0)) for v in (log_change.value, log_change.low, log_change.high)
    )
    method = f"exp(mean difference of log likelihood) - 1; {log_change.method}"
    no_interval = log_change.no_interval
    return Estimate(
        value, RATIO, method, "measured", low, high, log_change.level, log_change.n, no_interval=no_interval
    )
