"""An estimate times a constant: the value and its bounds, with the weaker of the origins."""

from __future__ import annotations

from dataclasses import replace

from twinlens.record.estimate import Estimate, Origin
from twinlens.stats.estimator.repeats import weakest


def scaled(estimate: Estimate, factor: float, unit: str, method: str, origin: Origin = "derived") -> Estimate:
    """`factor` × estimate in another unit (factor > 0); an absent estimate stays absent for its own reason."""
    spread = estimate.spread and estimate.spread.times(factor)
    if estimate.value is None:
        absent = Estimate.absent(unit, estimate.reason or "not measured", seen=estimate.seen)
        return replace(absent, spread=spread)
    low, high = (None if bound is None else bound * factor for bound in (estimate.low, estimate.high))
    return replace(
        estimate,
        value=estimate.value * factor,
        low=low,
        high=high,
        unit=unit,
        method=f"{method}; {estimate.method}",
        origin=weakest(estimate.origin, origin),
        spread=spread,
    )


def inverse(estimate: Estimate, factor: float, unit: str, method: str) -> Estimate:
    """`factor` / estimate, for positive estimates: the bounds change places."""
    if not estimate.value:
        return Estimate.absent(unit, estimate.reason or "the divisor is 0", seen=estimate.seen)
    low, high = (factor / bound if bound else None for bound in (estimate.high, estimate.low))
    return replace(
        estimate,
        value=factor / estimate.value,
        low=low,
        high=high,
        unit=unit,
        method=method,
        origin="derived",
        spread=None,
    )
