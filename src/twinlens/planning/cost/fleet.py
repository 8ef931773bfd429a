"""Whole machines: how many a month of requests needs, and what they cost when they are paid whatever they serve."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from twinlens.planning.cost.algebra import computed, plus, times
from twinlens.planning.cost.cent import cents
from twinlens.planning.cost.machine import Machine
from twinlens.planning.cost.request import Traffic
from twinlens.planning.figure import Figure, Input, assumed
from twinlens.units import HOURS_A_MONTH

_HOURS = Input("hours-a-month", HOURS_A_MONTH, "h", "365 × 24 / 12")


@dataclass(frozen=True, slots=True)
class Fleet:
    """As many machines as `requests` of a month need, paid for all of its hours."""

    machine: Machine
    traffic: Traffic
    requests: Figure

    def grown(self, growth: int) -> Fleet:
        """For `growth` times the requests."""
        more = Input("growth", growth, "1", "by definition")
        return Fleet(self.machine, self.traffic, times("grown-requests", "requests/month", more, self.requests))

    def busy_hours(self) -> Figure:
        """Hours of one machine at its rate that the requests take, with those made again, less the hits."""
        if self.traffic.throughput is None:
            raise ValueError("a machine has a throughput")
        hourly = times("hourly", "requests/h", self.traffic.throughput, Input("hour", 3600, "s", "by definition"))
        again, hits = Input("retries", self.traffic.retries or 0.0, "1"), Input("hits", self.traffic.hits or 0.0, "1")
        return computed("busy-hours", "h/month", "{0} × (1 + {2}) × (1 − {3}) / {1}",
                        (self.requests, hourly, again, hits),
                        lambda n, rate, again, hits: n * (1 + again) * (1 - hits) / rate, falls=(1, 3))  # fmt: skip

    def machines(self) -> Figure:
        """A whole number of them, each busy for at most its share of the hours."""
        parts = (self.busy_hours(), _HOURS, Input("busy", self.machine.busy, "1"))
        return computed("machines", "machines", "{0} / ({1} × {2}), rounded up", parts, _needed, falls=(1, 2))

    def duty(self) -> Figure:
        """The share of paid hours in which they serve."""
        hours = times("paid-hours", "h/month", self.machines(), _HOURS)
        value = self.busy_hours().number / hours.number
        return Figure("duty", value, "share", "{0} / {1}", (self.busy_hours(), hours))

    def hardware(self) -> Figure:
        """All hours of all machines, in whole cents."""
        currency = self.machine.currency
        paid = times("paid-hour", f"{currency}/h", self.machine.hardware(), Input("busy", self.machine.busy, "1"))
        return cents(times("hardware-month", f"{currency}/month", self.machines(), paid, _HOURS))

    def energy(self) -> Figure:
        """Busy hours under load and the others at idle power, in whole cents; absent where it is in the rent."""
        unit, power, hour = f"{self.machine.currency}/month", self.machine.power, self.machine.energy()
        if hour.value is None or power is None:
            return times("energy-month", unit, hour)
        used = times("busy-energy", unit, power.hour(self.machine.devices), self.busy_hours())
        if power.idle_w is None:
            return cents(plus("energy-month", unit, used, assumptions=(assumed("idle-power", ""),)))
        parts = (self.machines(), _HOURS, self.busy_hours())
        idle = computed("idle-hours", "h/month", "{0} × {1} − {2}", parts,
                        lambda many, hours, busy: max(many * hours - busy, Decimal(0)), falls=(2,))  # fmt: skip
        return cents(plus("energy-month", unit, used,
                          times("idle", unit, power.hour(self.machine.devices, power.idle_w), idle)))  # fmt: skip

    def bill(self, name: str) -> Figure:
        """The month of those machines: hardware, and energy where it is paid apart."""
        parts = [each for each in (self.hardware(), self.energy()) if each.value is not None]
        return plus(name, f"{self.machine.currency}/month", *parts)


def _needed(busy_hours: Decimal, hours: Decimal, share: Decimal) -> Decimal:
    return max((busy_hours / (hours * share)).to_integral_value(ROUND_CEILING), Decimal(1))
