"""A number with its evidence, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from twinlens.record.codec import OPTIONAL, UNWRITTEN, reads
from twinlens.units import show

# The distribution of a run's values in a hundred points, so that quantiles of several runs can be pooled.


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


Origin = Literal["measured", "derived", "modelled", "quoted", "simulated"]


def _known(data: Any) -> Any:
    if isinstance(data, Mapping) and (unknown := data.keys() - set(Estimate.__slots__)):
        raise ValueError(f"an estimate has no {min(unknown)!r}")
    return data


@reads(_known)
@dataclass(frozen=True, slots=True, repr=False)
class Estimate:
    """A value with its interval, sample count, unit, method and origin.

    `value` is None when it cannot be said; `reason` then says why. It is never 0 or inf in that case.
    `low`, `high` bound it at confidence `level` (0-1), or are None where no interval can be given; `no_interval` may
    then say why. `n` counts the independent observations behind it, `runs` the runs it was put together from, where it
    was. `seen`: how much there was of what `reason` or `no_interval` asks for. `hidden`: the relative change that could
    hide in a provisional figure, for which the bounds were widened. `unit` is one of `twinlens.units`.
    `spread`: of a quantile of one run, what it was read from, so that repeats can be pooled; shown nowhere.
    """

    value: float | None
    unit: str
    method: str
    origin: Origin
    low: float | None = field(default=None, metadata=OPTIONAL)
    high: float | None = field(default=None, metadata=OPTIONAL)
    level: float | None = field(default=None, metadata=OPTIONAL)
    n: int | None = field(default=None, metadata=OPTIONAL)
    reason: str | None = field(default=None, metadata=OPTIONAL)
    no_interval: str | None = field(default=None, metadata=OPTIONAL)
    seen: str | None = field(default=None, metadata=OPTIONAL)
    runs: int | None = field(default=None, metadata=OPTIONAL)
    hidden: float | None = field(default=None, metadata=OPTIONAL)
    spread: Spread | None = field(default=None, compare=False, metadata=UNWRITTEN)

    def __post_init__(self) -> None:
        for number in (self.value, self.low, self.high):
            if number is not None and not math.isfinite(number):
                raise ValueError(f"an estimate is finite or absent, not {number} ({self.method})")
        if self.value is None and not self.reason:
            raise ValueError(f"an absent estimate says why ({self.method})")

    def __repr__(self) -> str:
        if self.value is None:
            return f"<Estimate not measured: {self.reason}>"
        sides = "" if self.low is None or self.high is None else f", {show(self.low, self.unit)} to "
        sides += "" if not sides or self.high is None else show(self.high, self.unit)
        count = "" if self.n is None else f", n={self.n}"
        return f"<Estimate {show(self.value, self.unit)}{sides}{count}, {self.origin}>"

    @classmethod
    def absent(cls, unit: str, reason: str, method: str = "none", seen: str | None = None) -> Self:
        """Not measured, and why."""
        return cls(None, unit, method, "measured", reason=reason, seen=seen)

    @property
    def lacks(self) -> str:
        """Why there is no value, or no interval, with how much was seen; "" where nothing is said to be lacking."""
        return ", ".join(filter(None, (self.reason or self.no_interval, self.seen)))
