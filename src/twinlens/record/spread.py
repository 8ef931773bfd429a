"""The distribution of a run's values in a hundred points, so that quantiles of several runs can be pooled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """Values of one run by rank. `ranks` [k] count from 1, `values` [k] belong to them and rise.

    `size`: how many values there were, those that never came included: they lie above the last of `values`.
    `independent`: how many of them count as independent at the quantile that the spread stands beside.
    """

    size: int
    ranks: tuple[int, ...]
    values: tuple[float, ...]
    independent: float

    def times(self, factor: float) -> Spread:
        """The same in another unit (factor > 0)."""
        return replace(self, values=tuple(value * factor for value in self.values))


def spreads_to_json(spreads: Mapping[str, Spread]) -> dict[str, Any]:
    """A plain mapping of spreads by metric: the points of all quantiles of one kind of time are the same."""
    plain: dict[str, Any] = {}
    for name, spread in spreads.items():
        stem, _, which = name.rpartition("_p")
        points = {"size": spread.size, "ranks": list(spread.ranks), "values": list(spread.values), "independent": {}}
        plain.setdefault(stem, points)["independent"][which] = spread.independent
    return plain


def spreads_from_json(plain: Mapping[str, Any]) -> dict[str, Spread]:
    """The inverse of `spreads_to_json`. Raises KeyError or TypeError for anything else."""
    return {
        f"{stem}_p{which}": Spread(points["size"], tuple(points["ranks"]), tuple(points["values"]), independent)
        for stem, points in plain.items()
        for which, independent in points["independent"].items()
    }
