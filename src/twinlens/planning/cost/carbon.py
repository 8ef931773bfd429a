"""Carbon of what is served, from an intensity of the grid that the user gives with its source."""

from __future__ import annotations

from twinlens.planning.cost.algebra import computed, over, times
from twinlens.planning.cost.machine import Machine
from twinlens.planning.cost.request import Traffic
from twinlens.planning.figure import Figure, Input, absent
from twinlens.record.finding import Finding


def carbon_of(
    machine: Machine | None, traffic: Traffic, monthly: Figure | None, intensity: Input
) -> tuple[Figure, ...]:
    """Grams of a request, and kilograms of a month; absent where no power is known."""
    if machine is None or machine.power is None or traffic.throughput is None:
        reason = Finding("plan-unknown", "notes", "carbon", {"needs": "power"})
        return (absent("carbon", "g/request", reason),)
    power = machine.power.node(machine.devices)
    energy = computed("energy-request", "kWh/request", "{0} / 1,000 / 3,600 / {1}", (power, traffic.throughput),
                      lambda watts, rate: watts / 3_600_000 / rate, falls=(1,))  # fmt: skip
    each = times("carbon", "g/request", energy, intensity)
    if monthly is None:
        return (each,)
    return (
        each,
        over(
            "carbon-month",
            "kg/month",
            times("grams", "g/month", each, monthly),
            Input("kilo", 1000, "1", "by definition"),
        ),
    )
