"""Constraints of a site on a device, before any speed: ECC, a data-centre part, one's own floor, power."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from twinlens.planning.choose.wanted import Site
from twinlens.planning.fit.answer import COUNTS, MOST_DEVICES
from twinlens.planning.prediction.band import Calibrated
from twinlens.planning.prediction.constant import Array, values
from twinlens.planning.prediction.place import Rates, is_rated, rates_of
from twinlens.planning.prediction.work import Work, kept_cache, stacked, stored, work_of
from twinlens.planning.sold import bought, node_watts
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device
from twinlens.spec.model.shape import DecoderShape


def rejection(subject: str, **numbers: object) -> Finding:
    """The constraint that fails, with the numbers that show it."""
    return Finding("plan-rejected", "notes", subject, numbers)


def forbidden(device: Device, site: Site, *, trains: bool) -> Finding | None:
    """Why the site, or the kind of work, forbids a device; None where neither does."""
    if "ecc" in site.needs and device.ecc is not True:
        return rejection("ecc", known=device.ecc is not None)
    if "datacentre" in site.needs and not device.is_datacentre:
        return rejection("datacentre", form=device.form or "unknown")
    if "on-premise" in site.needs and device.form == "cloud-only":
        return rejection("on-premise")
    if device.form == "processor":
        return rejection("processor")
    if not is_rated(device):
        return rejection("no-rate")
    if trains and device.form == "desktop-system":
        return rejection("no-training", form="desktop-system")
    if site.power_w is None:
        return None
    least = float(node_watts(device, device.sold_in))
    if not math.isfinite(least):
        return rejection("power-unknown", cap_w=site.power_w)
    if least > site.power_w:
        return rejection("power", needed_w=least, cap_w=site.power_w, devices=device.sold_in)
    return None


def allowed(devices: tuple[Device, ...], counts: Any, site: Site) -> Any:
    """Pairs × ways: whether the machines of that many of each stay below the power that the site has."""
    if site.power_w is None:
        return np.ones((len(devices), len(counts)), dtype=bool)
    return np.array([node_watts(each, bought(counts, each.sold_in)) <= site.power_w for each in devices])


def too_little(needed: Any, counts: Any, room: float, device: Device, site: Site, allowed_ways: Any) -> Finding | None:
    """Why no layout of a pair fits: the least that a device would have to hold, or the power; None where one does."""
    fits, usual = needed <= room, whole(counts)
    if (fits & usual & allowed_ways).any():
        return None
    if (fits & usual).any():
        fewest = int(bought(counts[fits & usual].min(), device.sold_in))
        watts = float(node_watts(device, fewest))
        return rejection("power", needed_w=watts, cap_w=site.power_w, devices=fewest)
    if fits.any():
        return rejection("whole-nodes", devices=int(counts[fits].min()))
    best = int(np.argmin(needed))
    return rejection(
        "memory", needed_bytes=float(needed[best]), usable_bytes=room, devices=int(counts[best]), most=site.most_devices
    )


# Of each pair the smallest system that meets the targets, and of those the fastest.

_WHOLE = np.isin(np.arange(MOST_DEVICES + 1), COUNTS)
"""By number of devices: a table is read faster than a set is searched, for each of many thousand layouts."""


def smallest(pair: Any, devices: Any, rate: Any, meets: Any) -> dict[int, int]:
    """Row by pair: the fewest devices first, as they are sold, then the highest rate."""
    rows = np.nonzero(meets)[0]
    order = rows[np.lexsort((-rate[rows], devices[rows], pair[rows]))]
    _, first = np.unique(pair[order], return_index=True)
    return {int(pair[row]): int(row) for row in order[first]}


def whole(devices: Any) -> Any:
    """Counts that layouts come in: 1, 2, 4 and 8 devices, then whole nodes of 8."""
    return _WHOLE[np.asarray(devices, dtype=np.intp)]


def least_of(rows: Any, values: Any) -> int:
    """Of some rows, at least one, that with the least value."""
    places = np.nonzero(rows)[0]
    return int(places[np.argmin(values[places])])


# Links taken away: the same ceilings with the bus in the place of the fast link.

USUAL_BUS_BYTES_PER_S = 63e9
"""PCIe 5 with 16 lanes, where the catalogue has no bus of a device."""


def without_link(rates: Rates, device: Device, catalogue: Catalogue) -> Rates:
    """Devices of one machine on their bus alone."""
    bus = catalogue.link(device.bus).one_way_bytes_per_s if device.bus else USUAL_BUS_BYTES_PER_S
    return replace(rates, link_bytes_per_s=np.minimum(bus, rates.link_bytes_per_s))


# Devices and precisions as columns: ceilings, work and fitted constants, one entry for each pair.

Columns = TypeVar("Columns", Rates, Work)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Candidates before they have a layout. `rates`, `work`, `logs` have a row for each of `devices`."""

    devices: tuple[Device, ...]
    precisions: tuple[str, ...]
    rates: Rates
    work: Work
    logs: Array
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.devices)

    def constants(self, rows: Any) -> Any:
        """Fitted constants of the pairs in `rows`."""
        return values(self.names, self.logs[rows])


@dataclass(frozen=True, slots=True)
class Times:
    """Factors of rows of the datasheet, to see what more of one would change. `compute`: the matrix rate in 16 bits;
    `narrow`: that of a narrower format; `link`: between devices of a machine, `network`: between machines."""

    bandwidth: float = 1.0
    compute: float = 1.0
    narrow: float = 1.0
    link: float = 1.0
    network: float = 1.0
    memory: float = 1.0


def pairs_of(
    devices: Sequence[Device],
    precisions: Sequence[str],
    shape: DecoderShape,
    known: Calibrated,
    labels: Callable[[Device, str], tuple[str, ...]],
    engine: str,
    catalogue: Catalogue,
) -> Pairs:
    """Every device with every precision. `labels(device, precision)`: groups of the fitted constants."""
    both = [
        (device, name, stored(name, shape, kept_cache(name, engine)[1])) for device in devices for name in precisions
    ]
    names = tuple(known.constants.base)
    return Pairs(
        tuple(device for device, _, _ in both),
        tuple(name for _, name, _ in both),
        stacked([rates_of(device, kept, engine, catalogue) for device, _, kept in both]),
        stacked([work_of(shape, kept) for _, _, kept in both]),
        known.constants.logs([labels(device, name) for device, name, _ in both], names),
        names,
    )


def taken(columns: Columns, rows: Any) -> Columns:
    """The rows of each column."""
    return type(columns)(**{each.name: getattr(columns, each.name)[rows] for each in fields(columns)})


def multiplied(rates: Rates, times: Times) -> Rates:
    """Ceilings with more of one resource. Equal ones are one row: a format that runs in 16 bits, a bus alone."""
    wide, link = rates.wide_flop_per_s, rates.link_bytes_per_s
    return replace(
        rates,
        bytes_per_s=rates.bytes_per_s * times.bandwidth,
        flop_per_s=rates.flop_per_s * np.where(rates.flop_per_s == wide, times.compute, times.narrow),
        expert_flop_per_s=rates.expert_flop_per_s
        * np.where(rates.expert_flop_per_s == wide, times.compute, times.narrow),
        wide_flop_per_s=wide * times.compute,
        link_bytes_per_s=link * times.link,
        net_bytes_per_s=rates.net_bytes_per_s * np.where(rates.net_bytes_per_s == link, times.link, times.network),
        memory_bytes=rates.memory_bytes * times.memory,
    )
