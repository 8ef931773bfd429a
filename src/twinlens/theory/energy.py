"""Energy of work, modelled. Numbers may be arrays (theory/number.py); power in watts, energy in joules.

Energy roofline: Choi, Bedard, Fowler, Vuduc 2013, doi 10.1109/IPDPS.2013.77.
"""

from __future__ import annotations

import numpy as np

from twinlens.errors import BadInput
from twinlens.theory.number import Number, amount, count, rate

JOULES_PER_KWH = 3.6e6


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


def energy_each_j(power_w: Number, per_s: Number) -> Number:
    """Joules per token (or request, or step) at a sustained rate."""
    return amount("power_w", power_w) / rate("per_s", per_s)


def work_energy_j(
    flop: Number, bytes_moved: Number, time_s: Number, j_per_flop: Number, j_per_byte: Number, idle_w: Number = 0.0
) -> Number:
    """Energy roofline: arithmetic, traffic, and the power that flows whatever is done."""
    work = amount("flop", flop) * amount("j_per_flop", j_per_flop)
    traffic = amount("bytes_moved", bytes_moved) * amount("j_per_byte", j_per_byte)
    return work + traffic + amount("idle_w", idle_w) * amount("time_s", time_s)


def energy_balance_flop_per_byte(j_per_flop: Number, j_per_byte: Number) -> Number:
    """Intensity at which arithmetic and traffic take the same energy; the ridge point of time is another number."""
    return rate("j_per_byte", j_per_byte) / rate("j_per_flop", j_per_flop)


def energy_cost(energy: Number, price_per_kwh: Number) -> Number:
    """Cost of `energy` joules, in the unit of the price."""
    return amount("energy", energy) / JOULES_PER_KWH * amount("price_per_kwh", price_per_kwh)


def energy_share(power_w: Number, price_per_kwh: Number, capital_per_hour: Number) -> Number:
    """Share of energy in the hourly cost of a node: energy / (energy + capital)."""
    hourly = energy_cost(energy_j(power_w, 3600), price_per_kwh)
    return hourly / rate("hourly cost", hourly + amount("capital_per_hour", capital_per_hour))
