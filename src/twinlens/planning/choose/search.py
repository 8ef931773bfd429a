"""The search of one lens: every device and precision in every layout, ranked, or rejected with what fails."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from twinlens.planning.choose.candidate import MORE, Candidate, Ranking, Reach, Rejected, ranked
from twinlens.planning.choose.compared import reach_of
from twinlens.planning.choose.offer import Offer, Paid, offer_of
from twinlens.planning.choose.pairs import Pairs, Times
from twinlens.planning.choose.site import allowed, forbidden, too_little
from twinlens.planning.choose.smallest import smallest
from twinlens.planning.choose.smallest import whole as whole_counts
from twinlens.planning.choose.wanted import Site
from twinlens.planning.figure import Figure, Input
from twinlens.planning.prediction.band import LEVEL, Band
from twinlens.planning.prediction.shipped import Calibrated
from twinlens.planning.sold import bought
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device

_SLOPES = ("bandwidth", "compute", "narrow", "link", "network")
"""Rows of the datasheet that change times and not the layout."""
_TWICE = 2.0


class Grid(Protocol):
    """Rows of what fits: `pair` and `way` are places in the columns."""

    @property
    def pair(self) -> Any: ...
    @property
    def way(self) -> Any: ...
    @property
    def devices(self) -> Any: ...
    @property
    def tokens_per_s(self) -> Any:
        """Of the whole system."""

    @property
    def needed(self) -> Any:
        """Bytes on each device, pairs × ways, what does not fit included."""

    @property
    def room(self) -> Any:
        """Usable bytes on a device of each pair."""


@dataclass(frozen=True, slots=True)
class Search:
    """All that was tried, and what it was tried with. `ways`: layouts; `allowed`: pairs × ways, by the site."""

    pairs: Pairs
    ways: Any
    allowed: Any
    grid: Any
    site: Site
    known: Calibrated
    catalogue: Catalogue
    units: Any
    """Devices of the smallest thing of each pair that is sold; 1 where another model may use the rest of it."""

    def bought(self, row: int) -> int:
        """Devices of the whole units that a row of the grid needs."""
        return int(bought(self.grid.devices[row], self.units[self.grid.pair[row]]))


class Lens(Protocol):
    """One kind of work, as it is wanted."""

    @property
    def name(self) -> Literal["inference", "training"]: ...
    @property
    def paid(self) -> Paid: ...
    def reach(self, known: Calibrated) -> Reach: ...
    def pairs(self, devices: Sequence[Device], known: Calibrated, catalogue: Catalogue) -> Pairs: ...
    def ways(self, most: int) -> Any: ...
    def grid(self, pairs: Pairs, ways: Any, allowed: Any, times: Times) -> Grid: ...
    def meets(self, grid: Any) -> Any:
        """Rows that keep the targets."""

    def speed(self, pairs: Pairs, pair: Any, ways: Any, way: Any, times: Times) -> Any:
        """Requests or steps per second of some rows with more of a resource."""

    def missed(self, grid: Any, rows: Any) -> Finding:
        """The target that the fastest of some rows misses."""

    def candidate(self, search: Search, row: int, gains: Mapping[str, float]) -> Candidate: ...


def ranking_of(
    lens: Lens, site: Site, devices: Sequence[Device], known: Calibrated, catalogue: Catalogue, *, shared: bool = False
) -> Ranking:
    """Every device and precision: ranked, or rejected with the constraint that fails.

    `shared`: other models work on what is left of a board or rack, so that devices are counted one by one.
    """
    barred = {each.name: why for each in devices if (why := forbidden(each, site, trains=lens.name == "training"))}
    rejected = [Rejected(name, "any", why) for name, why in barred.items()]
    left = [each for each in devices if each.name not in barred]
    if not left:
        return Ranking(lens.name, (), tuple(rejected), 0)
    pairs, ways = lens.pairs(left, known, catalogue), lens.ways(site.most_devices)
    may = allowed(pairs.devices, ways.devices, site)
    units = np.array([1 if shared else each.sold_in for each in pairs.devices])
    whole = Search(pairs, ways, may, lens.grid(pairs, ways, may, Times()), site, known, catalogue, units)
    roomier = replace(whole, grid=lens.grid(pairs, ways, may, Times(memory=_TWICE)))
    chosen, more = _chosen(lens, whole), _chosen(lens, roomier)
    gains = _gains(lens, whole, chosen)
    found = []
    for pair in range(len(pairs)):
        row = chosen.get(pair)
        if row is None:
            rejected.append(Rejected(pairs.devices[pair].name, pairs.precisions[pair], _why_not(lens, whole, pair)))
            continue
        memory = max(1.0, _each(roomier, more[pair]) / _each(whole, row)) ** (math.log(MORE) / math.log(_TWICE))
        found.append(lens.candidate(whole, row, {**gains[pair], "memory": memory}))
    return Ranking(lens.name, ranked(found, lens.reach(known)), tuple(rejected), len(whole.grid.pair))


def offered(lens: Lens, search: Search, row: int, rate: Figure) -> Offer:
    """What the system of a row costs and draws."""
    device = search.pairs.devices[int(search.grid.pair[row])]
    return offer_of(device, search.bought(row), rate, lens.paid, search.catalogue)


def reach_in(metric: str, known: Calibrated, engine: str, model: str) -> Reach:
    """How far two predictions of one workload must lie apart, by what calibration had seen."""
    seen = {"engine": engine in known.seen["engine"], "model": model in known.seen["model"]}

    def reach(one: Candidate, other: Candidate) -> float | None:
        return reach_of(metric, device={one.device, other.device} <= known.seen["device"], **seen)

    return reach


def rate_each(inputs: Sequence[Figure | Input], formula: str, value: float, band: Band, source: str) -> Figure:
    """Tokens/s of one device that is paid for, by which candidates are ranked; `band` is of the time, so its ends
    change places."""
    return Figure(
        "rate-each", value, "tokens/s", formula, tuple(inputs), value / band.high, value / band.low, LEVEL,
        source=source,
    )  # fmt: skip


def _chosen(lens: Lens, search: Search) -> dict[int, int]:
    """Row of each pair: the smallest system that is sold and keeps the targets."""
    grid = search.grid
    paid = bought(grid.devices, search.units[grid.pair])
    return smallest(grid.pair, paid, grid.tokens_per_s, lens.meets(grid) & whole_counts(grid.devices))


def _each(search: Search, row: int) -> float:
    return float(search.grid.tokens_per_s[row]) / search.bought(row)


def _gains(lens: Lens, whole: Search, chosen: Mapping[int, int]) -> dict[int, dict[str, float]]:
    """Tokens/s with a tenth more of a resource over those of now, in the layout that was chosen."""
    rows = np.array([*chosen.values()], dtype=int)
    pair, way = whole.grid.pair[rows], whole.grid.way[rows]
    out: dict[int, dict[str, float]] = {int(each): {} for each in pair}
    now = lens.speed(whole.pairs, pair, whole.ways, way, Times())
    for name in _SLOPES:
        faster = lens.speed(whole.pairs, pair, whole.ways, way, Times(**{name: MORE}))
        for each, gain in zip(pair, faster / now, strict=True):
            out[int(each)][name] = float(gain)
    return out


def _why_not(lens: Lens, whole: Search, pair: int) -> Finding:
    """The constraint that fails: memory, power, or the target that the fastest layout misses."""
    grid = whole.grid
    why = too_little(
        grid.needed[pair], whole.ways.devices, float(grid.room[pair]), whole.pairs.devices[pair], whole.site,
        whole.allowed[pair],
    )  # fmt: skip
    return why or lens.missed(grid, (grid.pair == pair) & whole_counts(grid.devices))
