"""Bands: how far measurements lay from predictions, by kind of prediction and by what calibration had seen.

Split conformal prediction (Vovk et al. 2005; Lei et al. 2018, doi 10.1080/01621459.2017.1307116): the k-th smallest
error of n held-out rows, k = ceil((n + 1) · level), bounds the next one of their kind with probability `level`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

LEVEL = 0.9
FLOOR = {"serving": 0.06, "training": 0.11}
"""Identical systems of different owners differ by this much in public results (MLPerf Inference v5.1 and Training)."""
_FEW = 20


@dataclass(frozen=True, slots=True)
class Band:
    """`low` and `high` factors of a prediction, from `rows` held-out measurements of the kind named in `kind`."""

    low: float
    high: float
    rows: int
    kind: str


def quantile(errors: Iterable[float], level: float = LEVEL) -> float:
    """The conformal quantile; infinite where there are too few errors for the level."""
    ordered = sorted(errors)
    place = math.ceil((len(ordered) + 1) * level)
    return math.inf if place > len(ordered) else ordered[place - 1]


def widening(logs: Sequence[float], groups: Sequence[str], level: float = LEVEL) -> float:
    """How much wider a band is that comes from few devices, engines or models.

    The share of the squared errors that rows of a group have in common is widened as Student's t over the normal
    quantile, with as many observations as groups; the rest is of rows, which are many. Errors beyond the level count
    as if they lay at it.
    """
    import numpy as np
    from scipy.stats import norm, t

    tail = (1.0 + level) / 2.0
    wider = t.ppf(tail, max(len(set(groups)) - 1, 1)) / norm.ppf(tail)
    far = np.quantile(np.abs(logs), tail)
    near = np.clip(logs, -far, far)
    _, own, many = np.unique(groups, return_inverse=True, return_counts=True)
    means = np.bincount(own, weights=near) / many
    every = float(np.mean(near**2))
    shared = float(np.sum(many * means**2)) / len(near) / every if every > 0 else 0.0
    return float(np.sqrt(1.0 + (wider**2 - 1.0) * shared))


def factors(
    logs: Sequence[float], floor: float, level: float = LEVEL, groups: Sequence[str] | None = None
) -> tuple[float, float]:
    """Factors from logarithms of predicted over measured: each tail has half of what is outside; at least the floor.

    `groups`: the device, engine or model of each row; None where rows are independent.
    """
    tail = (1.0 + level) / 2.0
    wider = 1.0 if groups is None else widening(logs, groups, level)
    high = max(quantile([-each for each in logs], tail), math.log1p(floor)) * wider
    low = max(quantile(list(logs), tail), math.log1p(floor)) * wider
    return math.exp(-low), math.exp(high)


def band_of(table: Mapping[str, Mapping[str, float]], kinds: Sequence[str]) -> Band:
    """The band of the first of `kinds` that the table has; of several unseen things the widest of each.

    Raises KeyError where it has none.
    """
    if kinds[0] not in table:
        apart = [table[kind] for kind in kinds[1:-1] if kind in table]
        if apart:
            low, high = min(each["low"] for each in apart), max(each["high"] for each in apart)
            return Band(low, high, int(min(each["rows"] for each in apart)), kinds[0])
    for kind in kinds:
        if kind in table:
            row = table[kind]
            return Band(row["low"], row["high"], int(row["rows"]), kind)
    raise KeyError(f"no band for {', '.join(kinds)}")


def bands(
    logs: Sequence[float],
    kinds: Sequence[Sequence[str]],
    floor: Sequence[float],
    level: float = LEVEL,
    groups: Sequence[str] | None = None,
) -> dict[str, dict[str, float]]:
    """A table of bands: for each kind that at least some twenty held-out rows have. `groups`: of each row."""
    rows: dict[str, list[int]] = {}
    for i, own in enumerate(kinds):
        for kind in own:
            rows.setdefault(kind, []).append(i)
    out = {}
    for kind, members in sorted(rows.items()):
        if len(members) < _FEW * 2:
            continue
        of_each = None if groups is None else [groups[i] for i in members]
        low, high = factors([float(logs[i]) for i in members], max(floor[i] for i in members), level, of_each)
        if math.isfinite(high) and low > 0:
            out[kind] = {"low": round(low, 4), "high": round(high, 4), "rows": len(members)}
    return out


def of_groups(metric: str) -> str:
    """The kind of rows whose groups share experts."""
    return f"{metric}: groups"


def kinds_of(metric: str, *, device: bool, engine: bool, model: bool) -> tuple[str, ...]:
    """Kinds of a prediction, the closest first: what calibration had seen of its device, engine and model."""
    unseen = [name for name, seen in (("device", device), ("engine", engine), ("model", model)) if not seen]
    first = f"{metric}: unseen {' and '.join(unseen)}" if unseen else f"{metric}: seen"
    single = [f"{metric}: unseen {name}" for name in unseen]
    return (first, *single, metric)
