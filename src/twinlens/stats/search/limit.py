"""The highest rate within an SLO from all runs of a search together, and the rate to measure next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from twinlens.record.beside import Tried
from twinlens.spec.search import Search
from twinlens.spec.slo import Slo
from twinlens.stats.search.attainment import FEWEST, Attained, Curve, bracket

_APART = 1.5  # between neighbouring rates, for their middle to be asked for
_CLEAR = 4  # a limit does not bind where misses beside the answer are so many times fewer than allowed
_FEWEST_MISSES = 10  # that would be allowed, for that to show


def highest(tried: Sequence[Tried], search: Search, slo: Slo, level: float) -> tuple[float, float] | None:
    """The interval of the rate at which the first of the SLO's limits is left, by all runs.

    None for a concurrency, which is whole, for fewer than `FEWEST` runs, and while no rate above the limit or none
    below it was measured. The limits share the doubt (Bonferroni), for any of them may be the first.
    """
    runs, allowed = _by_limit(tried, search, slo), 1 - slo.quantile
    curves = _curves(runs, allowed)
    if not curves:
        return None
    first = _first(curves)
    rate, beyond = curves[first].quantile(0.5), (1 - level) / max(1, len(runs)) / 2
    binding = [name for name in runs if name == first or not _is_clear(runs[name], rate, allowed)]
    if curves[first].runs < FEWEST or not set(binding) <= set(curves):
        return None
    low = min(curves[name].quantile(beyond) for name in binding)
    high = min(curves[name].quantile(1 - beyond) for name in binding)
    return _in_digits(low, math.floor), _in_digits(high, math.ceil)


def more_runs(tried: Sequence[Tried], search: Search, slo: Slo, found: tuple[float, float]) -> int:
    """Runs that are expected to bring the interval that was found to the width that is asked for."""
    curves = _curves(_by_limit(tried, search, slo), 1 - slo.quantile)
    low, high = found
    return curves[_first(curves)].more_runs(math.log(high / low) / math.log1p(search.width))


def next_by_curve(tried: Sequence[Tried], search: Search, slo: Slo) -> float | None:
    """The rate that tells most: outward until the limit lies between two rates, the middle while these are far apart,
    then where the curve says. None where it has nothing to ask for."""
    runs, allowed = _by_limit(tried, search, slo), 1 - slo.quantile
    if not runs:
        return None
    least, most = search.bounds()
    ends = [bracket(seen, allowed) for seen in runs.values()]
    above = min((high for _, high in ends if high is not None), default=None)
    if above is None:
        top = max(low for low, _ in ends if low is not None)
        return min(most, 2 * top) if top < most else None
    below = min((low or 0.0) for low, high in ends if high == above)
    if not below:
        return max(least, above / 2) if above > least else None
    if above / below > _APART:
        return math.sqrt(above * below)
    curves = _curves(runs, allowed)
    return curves[_first(curves)].telling()


def _curves(runs: Mapping[str, Sequence[Attained]], allowed: float) -> dict[str, Curve]:
    return {name: curve for name, seen in runs.items() if (curve := Curve.through(seen, allowed))}


def _first(curves: Mapping[str, Curve]) -> str:
    """The limit that is left first."""
    return min(curves, key=lambda name: curves[name].quantile(0.5))


def _by_limit(tried: Sequence[Tried], search: Search, slo: Slo) -> dict[str, list[Attained]]:
    """What each run that can be judged saw of each limit. In a backlog that grows all requests miss in the end."""
    if search.over != "rate_per_s":
        return {}
    judged = [one for one in tried if one.verdict not in ("invalid", "failed") and one.requests]
    runs = {name: [_seen(one, name) for one in judged if name in one.shares] for name in slo.limits()}
    return runs if judged and all(len(seen) == len(judged) for seen in runs.values()) else {}


def _seen(one: Tried, name: str) -> Attained:
    share = 0.0 if one.label == "overload" else one.shares[name][0]
    return Attained(one.value, 1 - share, one.requests, one.gaps_cv)


def _is_clear(runs: Sequence[Attained], rate: float, allowed: float) -> bool:
    """Whether a limit is far from being left at the rate where another one is."""
    beside = [run for run in runs if 0.95 * rate <= run.rate_per_s <= 1.15 * rate]
    n = sum(run.requests for run in beside)
    missed = sum(run.missed * run.requests for run in beside)
    return n * allowed >= _FEWEST_MISSES and missed <= n * allowed / _CLEAR


def _in_digits(value: float, rounding: object) -> float:
    """In four digits, outward."""
    size = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{rounding(value / size) * size:.4g}")  # type: ignore[operator]
