"""A month of users: whole machines at their load in cents, per thousand users, twice the users, half a cent more."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from twinlens.planning.cost.algebra import CENT, cents, computed, exact, over, plus, times
from twinlens.planning.cost.machine import Machine, Priced
from twinlens.planning.cost.request import Each, Traffic, per_million
from twinlens.theory.figure import Figure, Input, assumed
from twinlens.units import HOURS_A_MONTH

_GROWTH = (1, 2, 5, 10)


@dataclass(frozen=True, slots=True)
class Volume:
    """`users` with `uses` a day each, None where nobody said so; `days` in a month, None: 365 / 12."""

    users: int
    uses: float | None = None
    days: float | None = None

    def monthly(self) -> Figure:
        """Requests in a month."""
        notes = () if self.uses is not None else (assumed("uses", "1"),)
        uses = Input("uses", self.uses if self.uses is not None else 1, "uses/day", "asked" if self.uses else "assumed")
        days = Decimal(365) / 12 if self.days is None else exact(self.days)
        source = "365 / 12" if self.days is None else "asked"
        parts = (Input("users", self.users, "users"), uses, Input("days", days, "days", source))
        return times("monthly", "requests/month", *parts, assumptions=notes)


@dataclass(frozen=True, slots=True)
class Month:
    """A month. `bill`: whole machines that are paid all month, or an API's requests.

    `machines`, `duty` (the share of their hours that serves), `request` and `million` (at that duty) are of machines,
    None behind an API. `margins`: at 1, 2, 5 and 10 times the use, and the use that leaves none; () where nobody said
    what users pay.
    """

    requests: Figure
    hardware: Figure
    energy: Figure
    bill: Figure
    per_thousand: Figure
    doubled: Figure
    half_cent: Figure
    machines: Figure | None = None
    duty: Figure | None = None
    request: Figure | None = None
    million: Figure | None = None
    margins: tuple[Figure, ...] = ()

    @property
    def users(self) -> int:
        return int(self.requests.inputs[0].value or 0)

    def figures(self) -> tuple[Figure, ...]:
        named = (self.requests, self.machines, self.duty, self.hardware, self.energy, self.bill, self.request,
                 self.million, self.per_thousand, self.doubled, self.half_cent)  # fmt: skip
        return (*(each for each in named if each is not None), *self.margins)


def month_of(each: Each, volume: Volume, traffic: Traffic, machine: Machine | None, revenue: Priced | None) -> Month:
    """The bill of a month, each part in whole cents, so that parts add up to it."""
    currency = each.total.unit.partition("/")[0]
    unit, requests = f"{currency}/month", volume.monthly()
    half_cent = times("half-cent", unit, Input("half a cent", CENT / 2, f"{currency}/request", "asked"), requests)
    if machine is None:
        bill = cents(times("bill", unit, each.total, requests))
        return Month(
            requests, times("hardware-month", unit, each.hardware), times("energy-month", unit, each.energy), bill,
            _per_thousand(bill, volume), _grown(bill, 2, "doubled"), half_cent,
            margins=_margins(bill, bill, volume, revenue, None),
        )  # fmt: skip
    fleet = Fleet(machine, traffic, requests)
    bill = fleet.bill("bill")
    request = over("request-at-load", f"{currency}/request", bill, requests)
    million = per_million(request, traffic, "million-at-load", f"{currency}/Mtoken")
    full = times("full-load", unit, each.total, requests)
    return Month(
        requests, fleet.hardware(), fleet.energy(), bill, _per_thousand(bill, volume), fleet.grown(2).bill("doubled"),
        half_cent, fleet.machines(), fleet.duty(), request, None if million.value is None else million,
        _margins(bill, full, volume, revenue, fleet),
    )  # fmt: skip


def _per_thousand(bill: Figure, volume: Volume) -> Figure:
    parts = (bill, Input("users", volume.users, "users"))
    return computed("thousand-users", bill.unit, "1,000 × {0} / {1}", parts, lambda a, b: 1000 * a / b, falls=(1,))


def _margins(
    bill: Figure, full: Figure, volume: Volume, revenue: Priced | None, fleet: Fleet | None
) -> tuple[Figure, ...]:
    """Margin of a month as each user uses it more: what they pay does not grow, what they cost does.

    None is left at the latest where what they pay is the cost of their requests at full load, `full`.
    """
    if revenue is None:
        return ()
    unit = bill.unit
    paid = times("revenue", unit, Input("users", volume.users, "users"), revenue.figure())
    costs = [_grown(bill, much) if fleet is None else fleet.grown(much).bill("grown") for much in _GROWTH]
    margins = [
        computed(f"margin-{growth}", unit, "{0} − {1}", (paid, cost), lambda a, b: a - b, falls=(1,))
        for growth, cost in zip(_GROWTH, costs, strict=True)
    ]
    return (*margins, over("margin-gone", "1", paid, full)) if full.value else tuple(margins)


def _grown(bill: Figure, growth: int, name: str = "grown") -> Figure:
    return times(name, bill.unit, Input("growth", growth, "1", "by definition"), bill)


# Whole machines: how many a month of requests needs, and what they cost when they are paid whatever they serve.

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
