"""Quantiles of repeated runs: of all their values together, as the quantile of a short run lies too low."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from twinlens.record.estimate import Estimate, Spread
from twinlens.stats.estimator.interval import t_quantile
from twinlens.stats.estimator.quantile import interval_ranks, name_of, needed_for_quantile
from twinlens.stats.estimator.repeats import FEWEST_RUNS

Floats = NDArray[np.float64]


def pooled_quantile(
    runs: Sequence[Spread], q: float, *, unit: str, level: float = 0.95, is_within: bool = False
) -> Estimate:
    """The `q` quantile of the values of R >= 2 runs together, with an interval from `FEWEST_RUNS` runs on.

    It runs between order statistics of the pooled values, by as many independent ones as the runs count together, and
    to no side less far than t(R-1) · s / √R, s the spread of the runs' own quantiles: runs may differ by more than
    their requests do. None below `needed_for_quantile` independent values: the mean of the quantiles of runs that are
    too short is too low, the more surely the more of them there are. Two runs have their range, no level. Absent below
    that number of values at all, or where the quantile falls among those that never came.
    `is_within`: the order statistics alone, for whoever adds how far runs differ. Raises ValueError below two runs.
    """
    if len(runs) < 2:
        raise ValueError("values are pooled of two runs or more")
    needed, size = needed_for_quantile(q, level), sum(run.size for run in runs)
    if size < needed:
        return Estimate.absent(unit, f"{name_of(q)} needs at least {needed} values", seen=f"there are {size}")
    value = _at(runs, q)
    if value is None:
        return Estimate.absent(unit, f"{name_of(q)} falls among the {_lost(runs)} of {size} that failed")
    own = own_quantiles(runs, q)
    method = f"{name_of(q)} of the {size} values of {len(runs)} runs in fresh processes together"
    known = [each for each in own if each is not None]
    if len(runs) < FEWEST_RUNS:
        most = None if len(known) < len(runs) else max(value, *known)
        said = f"{method}, with the runs' own; no confidence claimed"
        return Estimate(value, unit, said, "measured", min(value, *known), most, n=len(runs))
    independent = int(sum(run.independent for run in runs))
    if independent < needed:
        why = f"{name_of(q)} needs at least {needed} independent values over all runs"
        seen = f"there are about {independent} among {size}"
        return Estimate(value, unit, method, "measured", n=len(runs), no_interval=why, seen=seen)
    least, high = (_at(runs, share) for share in _bounds(independent, q, level))
    least = value if least is None else least  # it is below the value, so it came
    method += f", order statistics of {independent} independent ones, no narrower than runs differ"
    half = 0.0 if is_within else _between(known, level)
    top = None if high is None or len(known) < len(runs) else max(high, value + half)
    return Estimate(value, unit, method, "measured", max(0.0, min(least, value - half)), top, level, len(runs))


def own_quantiles(runs: Sequence[Spread], q: float) -> list[float | None]:
    """The quantile of each run by itself [R]; None where it falls among those that never came."""
    return [_at([run], q) for run in runs]


def _between(own: Sequence[float], level: float) -> float:
    """t · s / √R of the runs' own quantiles."""
    return t_quantile(level, len(own) - 1) * float(np.std(own, ddof=1)) / math.sqrt(len(own)) if len(own) > 1 else 0.0


def _bounds(independent: int, q: float, level: float) -> tuple[float, float]:
    """The shares of the pooled values at which the two order statistics stand; the outermost stay outermost."""
    return tuple((rank - 1) / max(1, independent - 1) for rank in interval_ranks(independent, q, level))  # type: ignore[return-value]


def _at(runs: Sequence[Spread], share: float) -> float | None:
    """The value below which `share` of all values lie; None where it never came."""
    known = [run for run in runs if run.values]
    if not known:
        return None
    size = sum(run.size for run in runs)
    places = np.unique(np.concatenate([run.values for run in known]))
    below = np.sum([_below(run, places) for run in known], axis=0)
    wanted = share * size
    if wanted > float(below[-1]) + 1e-9 * size:
        return None
    return float(np.interp(wanted, below, places))


def _below(run: Spread, places: Floats) -> Floats:
    """How many values of a run are at most each of `places` [k], between its points by a straight line."""
    return np.asarray(np.interp(places, run.values, run.ranks, left=0.0))


def _lost(runs: Sequence[Spread]) -> int:
    return sum(run.size - (run.ranks[-1] if run.ranks else 0) for run in runs)
