"""Power at the wall, heat, airflow and current of the devices of a plan, from the watts of their datasheets."""

from __future__ import annotations

import math
from dataclasses import dataclass

from twinlens.planning.figure import Figure, Input, absent, assumed, product
from twinlens.record.finding import Finding
from twinlens.spec.device import Device

BTU_PER_WH = 3.412142
"""International table BTU in a watt hour: 3600 / 1055.056."""
AIR_J_PER_M3_K = 1.204 * 1006.0
"""Density and specific heat of dry air at 20 °C and 101.3 kPa (1.204 kg/m³, 1,006 J/kg K)."""
CONTINUOUS_SHARE = 0.8
"""Of a circuit's rating that a load of three hours or more may draw (NEC 210.20(A): 125 % of it)."""


@dataclass(frozen=True, slots=True)
class Supply:
    """`host_w`: of all machines around the devices, None: not said. `efficiency` of power supplies, and power factor.

    `rise_k`: of the air from inlet to outlet. `phases` 1 or 3, `volts` between lines for 3.
    """

    volts: float = 230.0
    phases: int = 1
    rise_k: float = 15.0
    host_w: float | None = None
    efficiency: float = 0.94
    power_factor: float = 0.95


def power_figures(device: Device, devices: int, supply: Supply, hours: float | None = None) -> tuple[Figure, ...]:
    """Watts of the load and at the wall, BTU/h, m³/h, amperes and the circuit for them; kWh where hours are known."""
    if device.tdp_w is None:
        unknown = Finding("plan-unknown", "warns", "wall", {"model": device.name, "needs": "watts"})
        return (absent("wall", "w", unknown),)
    wall = _wall(_load(device.tdp_w, device.source, devices, supply), supply)
    heat = product("heat", "BTU/h", (wall, Input("btu", BTU_PER_WH, "BTU/h per W", "1055.056 J")))
    air = Figure(
        "air", 3600 * wall.number / (AIR_J_PER_M3_K * supply.rise_k), "m³/h", "{0} × 3600 s / ({1} × {2})",
        (wall, Input("air-heat", AIR_J_PER_M3_K, "J/m³K", "air at 20 °C at sea level"),
         Input("rise", supply.rise_k, "K")),
    )  # fmt: skip
    amps = _amps(wall, supply)
    share = Input("continuous", CONTINUOUS_SHARE, "1", "NEC 210.20(A)")
    circuit = Figure("circuit", amps.number / CONTINUOUS_SHARE, "A", "{0} / {1}", (amps, share))
    known = (wall, heat, air, amps, circuit)
    if hours is None:
        return known
    ran = Input("hours", hours, "h")
    used = Figure("energy", wall.number * hours / 1000, "kWh", "{0} × {1} / 1000", (wall, ran))
    return (*known, used)


def _load(watts: float, source: str, devices: int, supply: Supply) -> Figure:
    each = Input("device-watts", watts, "w", source)
    many = Input("devices", devices, "devices")
    if supply.host_w is None:
        note = assumed("host-watts", 0)
        return Figure(
            "load", devices * watts, "w", "{0} × {1}", (many, each), origin="quoted",
            assumptions=(note,),
        )  # fmt: skip
    host = Input("host-watts", supply.host_w, "w")
    total = devices * watts + supply.host_w
    return Figure("load", total, "w", "{0} × {1} + {2}", (many, each, host), origin="quoted")


def _wall(load: Figure, supply: Supply) -> Figure:
    share = Input("efficiency", supply.efficiency, "1", "of the power supplies")
    return Figure("wall", load.number / supply.efficiency, "w", "{0} / {1}", (load, share))


def _amps(wall: Figure, supply: Supply) -> Figure:
    volts, factor = Input("volts", supply.volts, "V"), Input("power-factor", supply.power_factor, "1", "assumed")
    value = wall.number / (supply.volts * supply.power_factor)
    if supply.phases == 1:
        return Figure("amps", value, "A", "{0} / ({1} × {2})", (wall, volts, factor))
    return Figure("amps", value / math.sqrt(3), "A", "{0} / (√3 × {1} × {2})", (wall, volts, factor))
