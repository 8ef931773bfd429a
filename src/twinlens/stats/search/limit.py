"""The highest rate within an SLO from all runs of a search together, and the rate to measure next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from twinlens.record.search import Tried
from twinlens.spec.search import Search
from twinlens.spec.slo import Slo
from twinlens.stats.search.attainment import FAR, Attained, Crossing, bracket, crossing, is_far, telling

_CLEAR = 4  # a limit does not bind where misses beside the answer are so many times fewer than allowed
_FEWEST_MISSES = 10  # that would be allowed, for that to show


def highest(tried: Sequence[Tried], search: Search, slo: Slo, level: float) -> Crossing | None:
    """The rate at which the first of the SLO's limits is left, with its interval where the runs give one.

    None for a concurrency, which is whole, and while no rate above the limit or none below it was measured. The
    limits share the doubt (Bonferroni), for any of them may be the first.
    """
    runs = _by_limit(tried, search, slo)
    allowed = 1 - slo.quantile
    share = 1 - (1 - level) / max(1, len(runs))
    crossed = {name: found for name, seen in runs.items() if (found := crossing(seen, allowed, share))}
    if not crossed:
        return None
    first = min(crossed, key=lambda name: crossed[name].rate_per_s)
    found = crossed[first]
    binding = [crossed.get(name) for name in runs if name == first or not _is_clear(runs[name], found, allowed)]
    ends = [(one.low, one.high) for one in binding if one and one.low is not None and one.high is not None]
    if len(ends) < len(binding):
        return replace(found, low=None, high=None)
    return replace(found, low=_in_digits(min(low for low, _ in ends), math.floor),
                   high=_in_digits(min(high for _, high in ends), math.ceil))  # fmt: skip


def next_by_curve(tried: Sequence[Tried], search: Search, slo: Slo, level: float) -> float | None:
    """The rate that tells most: outward until the limit lies between two rates, the middle while these are far apart,
    then beside the crossing. None where the curve has nothing to ask for."""
    runs, allowed = _by_limit(tried, search, slo), 1 - slo.quantile
    if not runs:
        return None
    least, most = search.bounds()
    ends = [bracket(seen, allowed) for seen in runs.values()]
    above = min((high for _, high in ends if high is not None), default=None)
    if above is None:
        top = max(low for low, _ in ends if low is not None)
        return min(most, 2 * top) if top < most else None
    name = min(runs, key=lambda each: bracket(runs[each], allowed)[1] or math.inf)
    below = bracket(runs[name], allowed)[0]
    if below is None:
        return max(least, above / 2) if above > least else None
    if above / below > 1.5:
        return math.sqrt(above * below)
    found = highest(tried, search, slo, level)
    if found is None or (found.low is None and above / below <= 1 + search.width):
        return None
    if not any(is_far(run.rate_per_s, found.rate_per_s) for run in runs[name]) and FAR * found.rate_per_s > least:
        return max(least, 0.9 * FAR * found.rate_per_s)
    return telling(runs[name], found)


def _by_limit(tried: Sequence[Tried], search: Search, slo: Slo) -> dict[str, list[Attained]]:
    """What each run that can be judged saw of each limit. In a backlog that grows all requests miss in the end."""
    if search.over != "rate_per_s":
        return {}
    judged = [one for one in tried if one.verdict not in ("invalid", "failed") and one.requests]
    runs = {name: [_seen(one, name) for one in judged if name in one.shares] for name in slo.limits()}
    return runs if judged and all(len(seen) == len(judged) for seen in runs.values()) else {}


def _seen(one: Tried, name: str) -> Attained:
    share, independent = one.shares[name]
    return Attained(one.value, 1.0 if one.label == "overload" else 1 - share, one.requests, independent)


def _is_clear(runs: Sequence[Attained], found: Crossing, allowed: float) -> bool:
    """Whether a limit is far from being left where another one is."""
    rate = found.rate_per_s
    beside = [run for run in runs if 0.95 * rate <= run.rate_per_s <= 1.15 * rate]
    n = sum(run.requests for run in beside)
    missed = sum(run.missed * run.requests for run in beside)
    return n * allowed >= _FEWEST_MISSES and missed <= n * allowed / _CLEAR


def _in_digits(value: float, rounding: object) -> float:
    """In three digits, outward."""
    size = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{rounding(value / size) * size:.3g}")  # type: ignore[operator]
