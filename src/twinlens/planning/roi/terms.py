"""The terms of a decision to buy: prices of each way to pay, hours used, and what money, waiting and a loan cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from twinlens.planning.cost.algebra import exact
from twinlens.planning.figure import Figure

Way = Literal["buy", "rent", "reserved", "api"]
OTHERS: tuple[Way, ...] = ("rent", "reserved", "api")
SHARES_A_YEAR = ("discount", "interest", "rent_falls", "resale_falls")
"""Shares a year, 0 where nobody said one."""
PRICES = ("buy", "residual", "fixed", "warranty", "energy", "rent", "reserved", "api")


@dataclass(frozen=True, slots=True)
class Terms:
    """Prices are of all devices together, and None where nobody has one.

    Paid once: `buy`, and `residual`, which comes back at the end, or what `resale_falls` (of the price, each year)
    leaves of it at that age. A month: `fixed`. A year: `warranty`. An hour that is used: `energy`, `rent` (less
    `rent_falls` of it each year), `api` (what the work of the hour would cost there). An hour that is not: `idle`, of
    energy. Every hour: `reserved`. `busy`: share of hours used. `discount`, `interest`: a year. `delivery`: months
    until a bought machine works; until then it is rented, where there is a rent. `loan`: months over which the machine
    is paid, 0: at once.
    """

    currency: str
    busy: Decimal
    buy: Figure
    energy: Figure
    residual: Figure | None = None
    fixed: Figure | None = None
    warranty: Figure | None = None
    rent: Figure | None = None
    reserved: Figure | None = None
    api: Figure | None = None
    discount: Decimal = Decimal(0)
    delivery: int = 0
    loan: int = 0
    interest: Decimal = Decimal(0)
    idle: Figure | None = None
    rent_falls: Decimal = Decimal(0)
    resale_falls: Decimal | None = None

    def ways(self) -> tuple[Way, ...]:
        """Ways to pay whose price is known, buying first."""
        return ("buy", *(way for way in OTHERS if getattr(self, way) is not None))

    def at(self, name: str, value: Decimal) -> Terms:
        """The same with one price, or one share, at another value; with the price of energy that of idle hours."""
        known = getattr(self, name)
        changed: Any = replace(known, value=value, low=None, high=None) if name in PRICES else value
        if name == "energy" and self.idle is not None and known.value:
            scaled = exact(self.idle.value) * value / exact(known.value)
            return replace(self, energy=changed, idle=replace(self.idle, value=scaled, low=None, high=None))
        return replace(self, **{name: changed})

    def best_for_buying(self, *, is_best: bool) -> Terms:
        """All prices at the end of their ranges that speaks for buying, or for the other ways."""
        changed = self
        for name in PRICES:
            price = getattr(self, name)
            if price is not None and price.low is not None:
                is_low = is_best != (name in (*OTHERS, "residual"))
                changed = changed.at(name, exact(price.low if is_low else price.high))
        return changed
