"""Whole machines: how many a month of requests needs, and what they cost when they are paid whatever they serve."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from twinlens.planning.cost.algebra import computed, plus, times
from twinlens.planning.cost.cent import cents
from twinlens.planning.cost.machine import HOURS_A_MONTH, Machine
from twinlens.planning.cost.request import Traffic
from twinlens.planning.figure import Figure, Input


@dataclass(frozen=True, slots=True)
class Fleet:
    """`requests` and `energy` (money) of a month, on as many machines as they need."""

    machine: Machine
    traffic: Traffic
    requests: Figure
    energy: Figure

    def machines(self, growth: int = 1) -> Figure:
        """A whole number of them, each busy for its share of the hours, for `growth` times the requests."""
        if self.traffic.throughput is None:
            raise ValueError("a machine has a throughput")
        asked = (
            times("grown-requests", "requests/month", *_more(growth), self.requests) if growth > 1 else self.requests
        )
        parts = (asked, self.traffic.throughput, Input("seconds-a-month", 3600 * HOURS_A_MONTH, "s", "730 h"),
                 Input("busy", self.machine.busy, "1"), Input("retries", self.traffic.retries or 0.0, "1"),
                 Input("hits", self.traffic.hits or 0.0, "1"))  # fmt: skip
        formula = "{0} × (1 + {4}) × (1 − {5}) / ({1} × {2} × {3}), rounded up"
        return computed("machines", "machines", formula, parts, _needed, falls=(1,))

    def cost(self, name: str, growth: int = 1) -> Figure:
        """The month of those machines, idle hours too, and the energy of the busy hours."""
        currency = self.machine.currency
        paid = times("paid-hour", f"{currency}/h", self.machine.hardware(), Input("busy", self.machine.busy, "1"))
        hours = Input("hours-a-month", HOURS_A_MONTH, "h", "365 × 24 / 12")
        hardware = cents(times("whole-hardware", f"{currency}/month", self.machines(growth), paid, hours))
        if self.energy.value is None:
            return plus(name, f"{currency}/month", hardware)
        energy = times("grown-energy", f"{currency}/month", *_more(growth), self.energy) if growth > 1 else self.energy
        return plus(name, f"{currency}/month", hardware, energy)


def _needed(
    requests: Decimal, rate: Decimal, seconds: Decimal, busy: Decimal, again: Decimal, hits: Decimal
) -> Decimal:
    needed = requests * (1 + again) * (1 - hits) / (rate * seconds * busy)
    return max(needed.to_integral_value(ROUND_CEILING), Decimal(1))


def _more(growth: int) -> tuple[Input]:
    return (Input("growth", growth, "1", "by definition"),)
