"""Energy of work, modelled. Numbers may be arrays (theory/number.py); power in watts, energy in joules."""

from __future__ import annotations

import numpy as np

from twinlens.errors import BadInput
from twinlens.theory.number import Number, amount, count, rate
from twinlens.units import JOULES_PER_KWH


def node_power_w(device_w: Number, devices: Number = 1, host_factor: Number = 1.0, pue: Number = 1.0) -> Number:
    """Power drawn from the grid: devices, the host around them, and the building around that (PUE at least 1)."""
    for name, factor in (("host_factor", host_factor), ("pue", pue)):
        if not np.all(rate(name, factor) >= 1):
            raise BadInput(f"{name} is total power over a part of it and cannot be below 1, not {factor}")
    return (
        amount("device_w", device_w) * count("devices", devices) * rate("host_factor", host_factor) * rate("pue", pue)
    )


def energy_j(power_w: Number, time_s: Number) -> Number:
    """Joules at this mean power."""
    return amount("power_w", power_w) * amount("time_s", time_s)


def energy_cost(energy: Number, price_per_kwh: Number) -> Number:
    """Cost of `energy` joules, in the unit of the price."""
    return amount("energy", energy) / JOULES_PER_KWH * amount("price_per_kwh", price_per_kwh)


def energy_share(power_w: Number, price_per_kwh: Number, capital_per_hour: Number) -> Number:
    """Share of energy in the hourly cost of a node: energy / (energy + capital)."""
    hourly = energy_cost(energy_j(power_w, 3600), price_per_kwh)
    return hourly / rate("hourly cost", hourly + amount("capital_per_hour", capital_per_hour))
