"""A month of users: the bill in cents, per thousand users, whole machines, twice the users, and half a cent more."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from twinlens.planning.cost.algebra import computed, exact, over, plus, times
from twinlens.planning.cost.cent import CENT, cents
from twinlens.planning.cost.fleet import Fleet
from twinlens.planning.cost.machine import Machine
from twinlens.planning.cost.price import Priced
from twinlens.planning.cost.request import Each, Traffic
from twinlens.planning.figure import Figure, Input, assumed

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
    """A month. `bill`: the sum of the halves that are known; `whole`: with machines that are paid all month.

    `margins`: at 1, 2, 5 and 10 times the use, and the use that leaves none; () where nobody said what users pay.
    """

    requests: Figure
    hardware: Figure
    energy: Figure
    bill: Figure
    per_thousand: Figure
    doubled: Figure
    half_cent: Figure
    machines: Figure | None = None
    whole: Figure | None = None
    whole_doubled: Figure | None = None
    margins: tuple[Figure, ...] = ()

    def figures(self) -> tuple[Figure, ...]:
        named = (self.requests, self.hardware, self.energy, self.bill, self.per_thousand, self.doubled, self.half_cent,
                 self.machines, self.whole, self.whole_doubled)  # fmt: skip
        return (*(each for each in named if each is not None), *self.margins)


def month_of(each: Each, volume: Volume, traffic: Traffic, machine: Machine | None, revenue: Priced | None) -> Month:
    """The bill of a month, each part in whole cents, so that parts add up to it."""
    currency = each.total.unit.partition("/")[0]
    unit, requests = f"{currency}/month", volume.monthly()
    hardware, energy = (
        cents(times(f"{name}-month", unit, part, requests))
        for name, part in (("hardware", each.hardware), ("energy", each.energy))
    )
    known = [half for half in (hardware, energy) if half.value is not None]
    bill = plus("bill", unit, *known) if known else cents(times("bill", unit, each.total, requests))
    users, half = Input("users", volume.users, "users"), Input("half a cent", CENT / 2, f"{currency}/request", "asked")
    per_thousand = computed(
        "thousand-users", unit, "1,000 × {0} / {1}", (bill, users), lambda a, b: 1000 * a / b, falls=(1,)
    )
    fleet = None if machine is None else Fleet(machine, traffic, requests, energy)
    return Month(
        requests, hardware, energy, bill, per_thousand, _grown("doubled", unit, bill, 2),
        times("half-cent", unit, half, requests),
        None if fleet is None else fleet.machines(), None if fleet is None else fleet.cost("whole"),
        None if fleet is None else fleet.cost("whole-doubled", 2),
        () if revenue is None else _margins(bill, volume, revenue, fleet),
    )  # fmt: skip


def _margins(bill: Figure, volume: Volume, revenue: Priced, fleet: Fleet | None) -> tuple[Figure, ...]:
    """Margin of a month as each user uses it more: what they pay does not grow, what they cost does."""
    unit = bill.unit
    paid = times("revenue", unit, Input("users", volume.users, "users"), revenue.figure())
    costs = [_grown("grown", unit, bill, much) if fleet is None else fleet.cost("grown", much) for much in _GROWTH]
    margins = [
        computed(f"margin-{growth}", unit, "{0} − {1}", (paid, cost), lambda a, b: a - b, falls=(1,))
        for growth, cost in zip(_GROWTH, costs, strict=True)
    ]
    return (*margins, over("margin-gone", "1", paid, bill)) if bill.value else tuple(margins)


def _grown(name: str, unit: str, bill: Figure, growth: int) -> Figure:
    return times(name, unit, Input("growth", growth, "1", "by definition"), bill)
