"""The present value of all that one way to pay takes over some months, as a figure with its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

from twinlens.planning.cost.algebra import computed, exact, plus, times
from twinlens.theory.figure import Figure, Input
from twinlens.units import HOURS_A_MONTH

_YEAR = 12


def outlay(way: Way, terms: Terms, months: int) -> Figure:
    """What the way costs over `months`, in money of today. Raises KeyError for a way without a price."""
    name = f"{way}-{months}"
    if way == "buy":
        return _bought(name, terms, months)
    price = getattr(terms, way)
    if price is None:
        raise KeyError(way)
    hours = _hours(Decimal(1) if way == "reserved" else terms.busy)
    falls = terms.rent_falls if way == "rent" else Decimal(0)
    return times(name, terms.currency, price, hours, _span("months", terms, 0, months, falls))


def _bought(name: str, terms: Terms, months: int) -> Figure:
    """The price, or its instalments; energy once it works; all that runs by the month; less what comes back."""
    unit, used, whole = terms.currency, _hours(terms.busy), _span("months", terms, 0, months)
    wait = min(terms.delivery, months)
    parts = [_paid(terms, months)]
    parts.append(times("energy-paid", unit, terms.energy, used, _span("working", terms, wait, months)))
    if terms.idle is not None and terms.busy < 1:
        waits = Input("idle-hours", HOURS_A_MONTH * (1 - terms.busy), "h/month", "730 h − hours used")
        parts.append(times("idle-paid", unit, terms.idle, waits, _span("working", terms, wait, months)))
    if terms.fixed is not None:
        parts.append(times("fixed-paid", unit, terms.fixed, whole))
    if terms.warranty is not None:
        parts.append(
            computed("warranty-paid", unit, "{0} / 12 × {1}", (terms.warranty, whole), lambda a, b: a / 12 * b)
        )
    if wait and terms.rent is not None:
        parts.append(times("bridge", unit, terms.rent, used, _span("waiting", terms, 0, wait, terms.rent_falls)))
    worth = _worth(terms, months)
    if worth is None:
        return plus(name, unit, *parts)
    back = times("back", unit, worth, Input("worth-now", _factor(terms.discount, months), "1", "discount"))
    return computed(
        name, unit, "{0} − {1}", (plus("spent", unit, *parts), back), lambda spent, back: spent - back, falls=(1,)
    )


def _worth(terms: Terms, months: int) -> Figure | None:
    """What it sells for at an age: what was said, or its price less a share of it each year."""
    if terms.resale_falls is None:
        return terms.residual
    left = (1 - terms.resale_falls) ** (Decimal(months) / _YEAR)
    source = f"(1 − {100 * terms.resale_falls:f} %) ^ ({months} / 12)"
    return times("resale", terms.currency, terms.buy, Input("left", left, "1", source))


def _paid(terms: Terms, months: int) -> Figure:
    """The machine: at once, or in equal instalments, with what is owed at the end paid then."""
    if not terms.loan:
        return times("paid", terms.currency, terms.buy)
    rate = terms.interest / _YEAR
    ratio = (1 + rate) ** terms.loan
    each = rate * ratio / (ratio - 1) if rate else Decimal(1) / terms.loan
    count = min(months, terms.loan)
    grown = (1 + rate) ** count
    owed = (grown - each * ((grown - 1) / rate if rate else Decimal(count))) if count < terms.loan else Decimal(0)
    parts = (
        terms.buy,
        Input("instalment", each, "1", f"{terms.loan} months at {100 * terms.interest:f} % a year"),
        _span("instalments", terms, 0, count),
        Input("owed", owed, "1", "of the price, at the end"),
        Input("worth-now", _factor(terms.discount, months), "1", "discount"),
    )
    return computed(
        "paid", terms.currency, "{0} × ({1} × {2} + {3} × {4})", parts, lambda p, i, n, o, f: p * (i * n + o * f)
    )


def _hours(busy: Decimal) -> Input:
    return Input("hours", HOURS_A_MONTH * busy, "h/month", f"730 h × {100 * busy:.4g} %")


def _span(name: str, terms: Terms, begin: int, end: int, falls: Decimal = Decimal(0)) -> Input:
    """Months from `begin` to `end`, each worth what money at its end is worth today; of a price that falls each year
    by the share `falls`, in months at the price of today."""
    worth = _annuity(terms.discount, end, falls) - _annuity(terms.discount, begin, falls)
    source = f"{end - begin} months" + (", discounted" if terms.discount else "")
    return Input(name, worth, "months", source + (f", {100 * falls:f} % cheaper each year" if falls else ""))


@lru_cache(maxsize=4096)
def _factor(discount: Decimal, months: int) -> Decimal:
    """Worth today of money after some months."""
    return (1 + discount) ** (Decimal(-months) / _YEAR) if discount else Decimal(1)


@lru_cache(maxsize=4096)
def _annuity(discount: Decimal, months: int, falls: Decimal = Decimal(0)) -> Decimal:
    """Worth today of 1 at the end of each of some months; of what falls, 1 is what it is in the first of them."""
    if not months or discount == falls == 0:
        return Decimal(months)
    worth = (1 + discount) ** (Decimal(-1) / _YEAR)
    ratio = worth * (1 - falls) ** (Decimal(1) / _YEAR)
    return worth * (1 - ratio**months) / (1 - ratio)


# The terms of a decision to buy: prices of each way to pay, hours used, and what money, waiting and a loan cost.

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
