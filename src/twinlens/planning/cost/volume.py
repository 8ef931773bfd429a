"""A month of users: whole machines at their load in cents, per thousand users, twice the users, half a cent more."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from twinlens.planning.cost.algebra import computed, exact, over, times
from twinlens.planning.cost.cent import CENT, cents
from twinlens.planning.cost.fleet import Fleet
from twinlens.planning.cost.machine import Machine
from twinlens.planning.cost.price import Priced
from twinlens.planning.cost.request import Each, Traffic, per_million
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
