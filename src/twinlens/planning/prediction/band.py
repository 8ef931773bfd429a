"""Bands: how far measurements lay from predictions, by kind of prediction and by what calibration had seen.

Split conformal prediction (Vovk et al. 2005; Lei et al. 2018, doi 10.1080/01621459.2017.1307116): the k-th smallest
error of n held-out rows, k = ceil((n + 1) · level), bounds the next one of their kind with probability `level`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from twinlens.planning.prediction.constant import Constants
from twinlens.system.document import json_of

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


# The constants that come with Twinlens, fitted to public measurements: values, bands, and what they were fitted to.


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Constants of one lens with their bands. `seen`: devices, engines and models of the rows they were fitted to."""

    constants: Constants
    bands: Mapping[str, Mapping[str, float]]
    seen: Mapping[str, frozenset[str]]
    ranges: Mapping[str, tuple[float, float]]
    """Least and most of batch, prompt and answer (or sequences and length) in calibration."""
    fitted_on: str
    date: str
    own: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Devices, engines and models of the user's own runs; empty where there are none."""

    def band(self, metric: str, *, device: str, engine: str, model: str, groups: bool = False) -> Band:
        """The band of a prediction, by what calibration had seen. Raises KeyError for a metric that has none.

        Of `groups` that share experts: no narrower than that of such rows alone, where calibration had enough of them.
        """
        known = {"device": device in self.seen["device"], "engine": engine in self.seen["engine"]}
        usual = band_of(self.bands, kinds_of(metric, **known, model=model in self.seen["model"]))
        apart = self.bands.get(of_groups(metric)) if groups else None
        if apart is None or (apart["low"] >= usual.low and apart["high"] <= usual.high):
            return usual
        low, high = min(usual.low, apart["low"]), max(usual.high, apart["high"])
        return Band(low, high, int(apart["rows"]), of_groups(metric))

    def outside(self, **values: float) -> dict[str, float]:
        """How many times beyond the range of calibration each value lies; empty inside it."""
        out = {}
        for name, value in values.items():
            low, high = self.ranges.get(name, (value, value))
            if value > 0 and not low <= value <= high:
                out[name] = low / value if value < low else value / high
        return out


@lru_cache(maxsize=1)
def shipped() -> Mapping[str, Calibrated]:
    """Constants by lens: "serving" and "training"."""
    text = Path(__file__).with_name("constants.json").read_text(encoding="utf-8")
    return {lens: calibrated_from(entry) for lens, entry in json_of(text).items()}


def calibrated_from(entry: Mapping[str, Any]) -> Calibrated:
    """Constants from plain data, as `plain` writes them."""
    return Calibrated(
        Constants(entry["base"], entry["factors"]),
        entry["bands"],
        {name: frozenset(values) for name, values in entry["seen"].items()},
        {name: (low, high) for name, (low, high) in entry["ranges"].items()},
        entry["fitted_on"],
        entry["date"],
        {name: frozenset(values) for name, values in entry.get("own", {}).items()},
    )


def plain(known: Calibrated) -> dict[str, Any]:
    """Constants as plain data; factors within 2 % of 1 are left out."""
    factors = {
        label: {name: round(value, 3) for name, value in own.items() if abs(value) > 0.02}
        for label, own in sorted(known.constants.factors.items())
    }
    own = {"own": {name: sorted(values) for name, values in known.own.items()}} if known.own else {}
    return {
        "date": known.date,
        "fitted_on": known.fitted_on,
        "base": {name: round(value, 4) for name, value in known.constants.base.items()},
        "factors": {label: own for label, own in factors.items() if own},
        "bands": {kind: dict(row) for kind, row in known.bands.items()},
        "seen": {name: sorted(values) for name, values in known.seen.items()},
        "ranges": {name: list(limits) for name, limits in known.ranges.items()},
        **own,
    }
