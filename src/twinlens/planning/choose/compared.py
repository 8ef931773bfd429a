"""Comparisons of two systems: how far apart predicted rates must lie before measurements would hold their order.

Errors of two systems on one workload are alike in part, so a ratio is known better than both rates. The reach of a
ratio is from pairs of public measurements, each predicted without its device, model or engine
(`python -m benchmarks.prediction.pairs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

from twinlens.planning.prediction.band import kinds_of
from twinlens.system.document import json_of


@lru_cache(maxsize=256)
def reach_of(metric: str, *, device: bool, engine: bool, model: bool) -> float | None:
    """The factor by which one predicted rate must exceed another; None where too few pairs were measured.

    `device`: calibration has seen both; `engine`, `model`: it has seen those. 95 % of pairs that are further apart
    have the predicted order.
    """
    kinds = kinds_of(metric, device=device, engine=engine, model=model)
    table = _table()
    if kinds[0] in table:
        return table[kinds[0]]
    apart = [table[kind] for kind in kinds[1:-1] if kind in table]
    return max(apart) if len(apart) == len(kinds) - 2 and apart else None


@lru_cache(maxsize=1)
def _table() -> Mapping[str, float]:
    text = (resources.files("twinlens.planning.choose") / "compared.json").read_text(encoding="utf-8")
    return {kind: float(row["reach"]) for kind, row in json_of(text).items()}
