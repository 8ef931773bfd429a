"""Devices and precisions as columns: ceilings, work and fitted constants, one entry for each pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from twinlens.planning.prediction.constant import Array, values
from twinlens.planning.prediction.device_rates import rates_of
from twinlens.planning.prediction.place import Rates
from twinlens.planning.prediction.shipped import Calibrated
from twinlens.planning.prediction.stored import kept_cache, stored
from twinlens.planning.prediction.work import Work, stacked, work_of
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device
from twinlens.spec.model.shape import DecoderShape

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
