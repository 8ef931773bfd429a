"""The search of one lens: every device and precision in every layout, ranked, or rejected with what fails."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from twinlens.planning.choose.candidate import MORE, Candidate, Ranking, Reach, Rejected, limit_of, missed, ranked
from twinlens.planning.choose.site import Pairs, Times, allowed, forbidden, pairs_of, rejection, smallest, too_little
from twinlens.planning.choose.site import whole as whole_counts
from twinlens.planning.choose.wanted import Own, Paid, ServingWanted, Site, TrainingWanted, offer_of
from twinlens.planning.prediction.band import LEVEL, Band, Calibrated, kinds_of
from twinlens.planning.sold import bought
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device
from twinlens.system.document import json_of
from twinlens.theory.figure import Figure, Input, total

_SLOPES = ("bandwidth", "compute", "narrow", "link", "network")
"""Rows of the datasheet that change times and not the layout."""
_TWICE = 2.0


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of what fits: `pair` and `way` are places in the columns; `found` and two more are of each row.

    `found`: columns of a prediction, latencies or parts of a step. `tokens_per_s`: of the whole system. `needed`: bytes
    on each device, pairs × ways, what does not fit included. `room`: usable bytes on a device of each pair.
    """

    pair: Any
    way: Any
    devices: Any
    found: Any
    tokens_per_s: Any
    needed: Any
    room: Any


@dataclass(frozen=True, slots=True)
class Search:
    """All that was tried, and what it was tried with. `ways`: layouts; `allowed`: pairs × ways, by the site."""

    pairs: Pairs
    ways: Any
    allowed: Any
    grid: Grid
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
    def wanted(self) -> ServingWanted | TrainingWanted: ...
    @property
    def own(self) -> Own | None: ...
    @property
    def paid(self) -> Paid: ...
    def reach(self, known: Calibrated) -> Reach: ...
    def labels(self, device: Device, precision: str) -> tuple[str, ...]:
        """Groups of the fitted constants."""

    def ways(self, most: int) -> Any: ...
    def grid(self, pairs: Pairs, ways: Any, allowed: Any, times: Times) -> Grid: ...
    def meets(self, grid: Grid) -> Any:
        """Rows that keep the targets."""

    def speed(self, pairs: Pairs, pair: Any, ways: Any, way: Any, times: Times) -> Any:
        """Requests or steps per second of some rows with more of a resource."""

    def missed(self, grid: Grid, rows: Any) -> Finding:
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
    pairs, ways = _pairs(lens, left, known, catalogue), lens.ways(site.most_devices)
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


def _pairs(lens: Lens, devices: Sequence[Device], known: Calibrated, catalogue: Catalogue) -> Pairs:
    """Every device with every precision; constants are those of own runs where there are some."""
    wanted, own = lens.wanted, lens.own

    def labels(device: Device, precision: str) -> tuple[str, ...]:
        groups = lens.labels(device, precision)
        return groups if own is None else own.labels(groups, device.name)

    fitted = known if own is None else own.known
    return pairs_of(devices, wanted.precisions, wanted.shape, fitted, labels, wanted.engine, catalogue)


def candidate_of(
    lens: Lens, search: Search, row: int, gains: Mapping[str, float], *, split: Sequence[str], rate: Figure,
    times: tuple[Figure, ...], links: Mapping[str, Any],
) -> Candidate:  # fmt: skip
    """The system of a row, with what it costs and draws. `split`: names of the columns that are its layout."""
    grid, ways = search.grid, search.ways
    pair, way, count = int(grid.pair[row]), int(grid.way[row]), search.bought(row)
    device = search.pairs.devices[pair]
    return Candidate(
        device.name, search.pairs.precisions[pair], count, int(grid.devices[row]),
        {name: int(getattr(ways, name)[way]) for name in split}, rate, times, limit_of(gains),
        offer_of(device, count, rate, lens.paid, search.catalogue), float(grid.needed[pair, way] / grid.room[pair]),
        links=links,
    )  # fmt: skip


def parts_of(found: Any, row: int = 0) -> dict[str, float]:
    """Seconds of each part of a predicted step in a row, by its name."""
    return {each.name.removesuffix("_s"): float(np.ravel(getattr(found, each.name))[row]) for each in fields(found)}


def sum_of(name: str, parts: Mapping[str, float], **more: Any) -> Figure:
    """A time as the sum of its parts."""
    return total(name, "s", [Figure(part, value, "s") for part, value in parts.items()], **more)


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


# Several models on devices of one kind, each on devices of its own: rankings of each alone become one of all.

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Sold:
    """Devices by name, how they are paid, and how far apart two systems must be."""

    devices: Mapping[str, Device]
    paid: Paid
    catalogue: Catalogue
    reach: Reach


def together(
    names: Sequence[str], formats: Sequence[Sequence[str]], alone: Sequence[Ranking], site: Site, sold: Sold
) -> Ranking:
    """Of each device and precision the sum of the smallest systems, in whole boards or racks; left out where one model
    has none, or all are above the power or the number of devices that the site allows. The ranking of one model is
    returned as it is. `formats`: of each model, in the order that was asked for: the first of one stands beside the
    first of the others, and the last of a shorter list beside the rest.
    """
    if len(alone) == 1:
        return alone[0]
    first = alone[0]
    barred = [each for each in first.rejected if each.precision == "any"]
    beside = [{kept: own[min(place, len(own) - 1)] for place, kept in enumerate(formats[0])} for own in formats]
    does = [_as_first({(each.device, each.precision): each for each in ranking.candidates}, own)
            for ranking, own in zip(alone, beside, strict=True)]  # fmt: skip
    fails = [_as_first({(each.device, each.precision): each.reason for each in ranking.rejected}, own)
             for ranking, own in zip(alone, beside, strict=True)]  # fmt: skip
    found, left = [], []
    for pair in (*does[0], *fails[0]):
        reasons = [_of(name, fail[pair]) for name, fail in zip(names, fails, strict=True) if pair in fail]
        if not reasons:
            whole = _whole([replace(one[pair], model=name) for name, one in zip(names, does, strict=True)], sold)
            reasons = _too_many(whole, site)
            found += [] if reasons else [whole]
        left += [Rejected(*pair, _hardest(reasons))] if reasons else []
    return Ranking(first.lens, ranked(found, sold.reach), (*barred, *left), sum(each.evaluated for each in alone))


def _as_first(found: Mapping[tuple[str, str], Kept], own: Mapping[str, str]) -> dict[tuple[str, str], Kept]:
    """What was found of a model, by the format of the first model that its own stands beside."""
    devices = dict.fromkeys(device for device, _ in found)
    return {(device, first): found[device, kept] for device in devices for first, kept in own.items()
            if (device, kept) in found}  # fmt: skip


def _of(name: str, reason: Finding) -> Finding:
    return replace(reason, numbers={**reason.numbers, "model": name})


def _hardest(reasons: Sequence[Finding]) -> Finding:
    """The reason of the model that misses by most, because of those of the others."""
    worst = max(reasons, key=missed)
    return replace(worst, because=tuple(each for each in reasons if each is not worst))


def _too_many(whole: Candidate, site: Site) -> list[Finding]:
    if whole.power_w is not None and site.power_w is not None and whole.power_w > site.power_w:
        return [rejection("power", needed_w=whole.power_w, cap_w=site.power_w, devices=whole.devices)]
    if whole.used > site.most_devices:
        return [rejection("together", devices=whole.used, most=site.most_devices)]
    return []


def _whole(parts: Sequence[Candidate], sold: Sold) -> Candidate:
    """Layout and links are of the model on most devices, times of the slowest; gains are what every model has."""
    used, large = sum(each.used for each in parts), max(parts, key=lambda each: each.used)
    device = sold.devices[large.device]
    devices = int(bought(used, device.sold_in))
    gains = {name: min(each.limit.gains[name] for each in parts) for name in large.limit.gains}
    rate = _rate(parts, devices)
    return replace(
        large,
        model="",
        precision=" + ".join(dict.fromkeys(each.precision for each in parts)),
        devices=devices,
        used=used,
        rate=rate,
        times=tuple(
            max(same, key=lambda each: each.number) for same in zip(*(each.times for each in parts), strict=True)
        ),
        limit=limit_of(gains),
        offer=offer_of(device, devices, rate, sold.paid, sold.catalogue),
        memory_share=sum(each.memory_share * each.used for each in parts) / used,
        parts=tuple(parts),
    )


def _rate(parts: Sequence[Candidate], devices: int) -> Figure:
    """Answers of all models by all devices. Ends of bands are added: errors of one device are taken as alike."""
    answers = [
        Figure(each.model, each.devices * each.rate.number, "tokens/s", "{0} × {1}",
               (Input("devices", each.devices, "devices"), each.rate), each.devices * each.rate.end("low"),
               each.devices * each.rate.end("high"), each.rate.level)
        for each in parts
    ]  # fmt: skip
    low, value, high = (sum(each.end(name) for each in answers) / devices for name in ("low", "value", "high"))
    formula = f"({' + '.join(f'{{{place}}}' for place in range(len(answers)))}) / {{{len(answers)}}}"
    return Figure(
        "rate-each", value, "tokens/s", formula, (*answers, Input("devices", devices, "devices")), low, high,
        parts[0].rate.level, source=parts[0].rate.source,
    )  # fmt: skip


# Comparisons of two systems: how far apart predicted rates must lie before measurements would hold their order.
#
# Errors of two systems on one workload are alike in part, so a ratio is known better than both rates. The reach of a
# ratio is from pairs of public measurements, each predicted without its device, model or engine
# (`python -m benchmarks.prediction.pairs`).


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
    text = Path(__file__).with_name("compared.json").read_text(encoding="utf-8")
    return {kind: float(row["reach"]) for kind, row in json_of(text).items()}
