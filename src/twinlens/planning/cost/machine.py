"""The cost of a busy hour of a machine, in hardware and in energy: bought, or rented and paid by the hour."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from statistics import median
from typing import Any, Literal

import numpy as np

from twinlens.errors import BadInput
from twinlens.planning.cost.algebra import computed, over, plus, times
from twinlens.record.finding import Finding
from twinlens.spec.money import Money, Price
from twinlens.theory.figure import Figure, Input, absent, assumed
from twinlens.theory.number import Number, amount, count, rate
from twinlens.units import HOURS_A_MONTH, JOULES_PER_KWH

# A price as a plan uses it: an amount of money with its source, as a figure whose band is the quoted range.


@dataclass(frozen=True, slots=True)
class Priced:
    """`name`: what it is for (buy, rent, energy …). `source`: "asked" where it was typed, else when and who.

    `typical`: the median of several quotes, None where a range is all that is known; `notes` say how they were joined.
    """

    name: str
    money: Money
    source: str = "asked"
    uncertain: bool = False
    typical: Decimal | None = None
    notes: tuple[Finding, ...] = ()
    tier: str = ""
    """Of a quote of the catalogue: "purchase", "on-demand", "reserved", or "cloud" where nobody said which."""
    when: str = ""
    """Of the newest quote; "" where none has a date."""

    @property
    def currency(self) -> str:
        return self.money.currency

    def figure(self) -> Figure:
        """The median of quotes, else the middle of the range, with its ends as the band."""
        money = self.money
        notes = self.notes
        if not notes and money.is_range:
            notes = (Finding("plan-assumed", "notes", "middle-price", {"taken": str(money.middle), "price": self.name,
                     "low": str(money.low), "high": str(money.high), "unit": money.unit}),)  # fmt: skip
        ends = (money.low, money.high) if money.is_range else (None, None)
        taken = money.middle if self.typical is None else self.typical
        return Figure(
            self.name, taken, money.unit, low=ends[0], high=ends[1], origin="quoted", source=self.source,
            assumptions=notes,
        )  # fmt: skip


"""365 × 24 / 12."""
Way = Literal["buy", "rent", "reserved", "api"]


@dataclass(frozen=True, slots=True)
class Power:
    """Watts of one device under load, `host` and `pue` as factors on it, and the price of a kWh.

    `idle_w`: of one device that waits, None where nobody said so.
    """

    device_w: float
    host: float
    pue: float
    price: Priced
    source: str = "asked"
    idle_w: float | None = None

    def node(self, devices: int, device_w: float | None = None) -> Figure:
        """Watts from the grid, under load or at `device_w` of each device. Raises BadInput for factors below 1."""
        each, source = (self.device_w, self.source) if device_w is None else (device_w, "asked")
        watts = float(node_power_w(each, devices, self.host, self.pue))
        parts = (Input("device-power", each, "w", source), Input("devices", devices, "devices"),
                 Input("host", self.host, "1"), Input("pue", self.pue, "1"))  # fmt: skip
        notes = () if self.host > 1 or self.pue > 1 else (assumed("device-power-alone", "1"),)
        return Figure("power", watts, "w", "{0} × {1} × {2} × {3}", parts, assumptions=notes)

    def hour(self, devices: int, device_w: float | None = None) -> Figure:
        """The energy of an hour under load, or at `device_w` of each device."""
        node = self.node(devices, device_w)
        kwh = float(energy_j(node.number, 3600)) / JOULES_PER_KWH
        energy = Figure("energy-hour", kwh, "kWh/h", "{0} over an hour", (node,))
        return times("energy", f"{self.price.currency}/h", energy, self.price.figure(), law="energy-cost")


@dataclass(frozen=True, slots=True)
class Machine:
    """`devices` devices, `busy` of whose hours serve. `price`: of one to buy, or of an hour of one.

    `life_months`, `residual` (of all of it) and `fixed` (a month) are of a machine that is bought.
    """

    way: Way
    devices: int
    price: Priced
    busy: float = 1.0
    life_months: float = 36.0
    residual: Priced | None = None
    fixed: Priced | None = None
    power: Power | None = None
    is_busy_said: bool = True
    is_life_said: bool = True

    @property
    def currency(self) -> str:
        return self.price.currency

    def hardware(self) -> Figure:
        """A busy hour of the hardware, idle hours paid by the busy ones."""
        unit = f"{self.currency}/h"
        share = Input("busy", self.busy, "1", "asked" if self.is_busy_said else "assumed")
        notes: dict[str, Any] = {} if self.is_busy_said else {"assumptions": (assumed("busy", "100 %"),)}
        if self.way != "buy":
            rate = times("rate", unit, self.price.figure(), Input("devices", self.devices, "devices"), law="rent")
            return over("hardware", unit, rate, share, **notes)
        source = "asked" if self.is_life_said else "assumed"
        hours = times("life", "h", Input("months", self.life_months, "months", source),
                      Input("hours-a-month", HOURS_A_MONTH, "h/month", "365 × 24 / 12"))  # fmt: skip
        if not self.is_life_said:
            notes = {"assumptions": (*notes.get("assumptions", ()), assumed("life", f"{self.life_months:g} months"))}
        useful = times("useful", "h", hours, share)
        capital = over("capital", unit, self.spent(), useful)
        if self.fixed is None:
            return over("hardware", unit, self.spent(), useful, law="price-per-useful-hour", **notes)
        month = times("busy-month", "h/month", Input("hours-a-month", HOURS_A_MONTH, "h/month"), share)
        return plus("hardware", unit, capital, over("fixed", unit, self.fixed.figure(), month),
                    law="price-per-useful-hour", **notes)  # fmt: skip

    def spent(self) -> Figure:
        """What is paid once, less what is got back at the end."""
        many = Input("devices", self.devices, "devices")
        if self.residual is None:
            notes = (assumed("residual", "nothing"),)
            return times("capex", self.currency, self.price.figure(), many, assumptions=notes, law="purchase")
        paid = times("capex", self.currency, self.price.figure(), many, law="purchase")
        back = self.residual.figure()
        return computed(
            "spent", self.currency, "{0} − {1}", (paid, back), lambda a, b: max(a - b, Decimal(0)), falls=(1,)
        )

    def energy(self) -> Figure:
        """The energy of a busy hour; absent where somebody else pays it, or nobody said what it costs."""
        unit = f"{self.currency}/h"
        if self.way != "buy":
            return absent("energy", unit, Finding("plan-unknown", "notes", "energy", {"needs": "in-the-rent"}))
        if self.power is None:
            return absent("energy", unit, Finding("plan-unknown", "warns", "energy", {"needs": "price-of-energy"}))
        return self._with_idle(self.power)

    def _with_idle(self, power: Power) -> Figure:
        """A busy hour, and the hours that it waits for each: at its idle power, or not counted where none is known."""
        busy, unit = power.hour(self.devices), f"{self.currency}/h"
        if self.busy >= 1:
            return busy
        if power.idle_w is None:
            return replace(busy, assumptions=(*busy.assumptions, assumed("idle-power", "")))
        hours = Input("idle-hours", (1 - self.busy) / self.busy, "h/h", "(1 − busy) / busy")
        return plus("energy", unit, busy, times("idle", unit, power.hour(self.devices, power.idle_w), hours))


# Quotes of a catalogue joined into one price: like with like, by tier and by date, and never a middle over tiers.

_TIERS = {
    "buy": ("purchase",), "rent": ("on-demand-hour", "cloud-hour"), "reserved": ("reserved-hour",),
}  # fmt: skip
"""Kinds of quotes that answer each way to pay, best first."""
_LIKE_DAYS = 366
"""Quotes that are older than this before the newest are of another market."""


def joined(way: str, quotes: Sequence[Price]) -> Priced | None:
    """The median of like quotes, with their ends as its range; None where there is none of the way's tiers.

    Dated quotes come before undated ones, and of each those whose tier is stated. The undated are used only alone, and
    said to be unverified.
    """
    current = _of_one_market([each for each in quotes if (each.kind == "purchase") == (way == "buy")])
    for is_dated in (True, False):
        for kind in _TIERS[way]:
            like = [each for each in current if each.kind == kind and (each.date is not None) == is_dated]
            if like:
                return _price(way, like)
    return None


def _of_one_market(quotes: Sequence[Price]) -> list[Price]:
    """Quotes in the currency of the newest and within a year of it, and the undated; the oldest first."""
    if not quotes:
        return []
    ordered = sorted(quotes, key=lambda each: each.date or "")
    newest = ordered[-1]
    return [
        each
        for each in ordered
        if each.currency == newest.currency
        and (each.date is None or (_day(newest.date or each.date) - _day(each.date)).days <= _LIKE_DAYS)
    ]


def _price(way: str, quotes: Sequence[Price]) -> Priced:
    newest = quotes[-1]
    money = Money(
        min(each.low for each in quotes),
        max(each.high for each in quotes),
        newest.currency,
        "" if way == "buy" else "h",
    )
    typical = median((each.low + each.high) / 2 for each in quotes)
    uncertain = any(each.uncertain for each in quotes)
    numbers = {
        "taken": f"{typical:f}", "price": way, "low": f"{money.low:f}", "high": f"{money.high:f}", "unit": money.unit,
        "count": len(quotes), "tier": newest.kind.removesuffix("-hour"), "when": newest.date or "",
    }  # fmt: skip
    subject = "like-undated" if newest.date is None else "like-unverified" if uncertain else "like-quotes"
    source = f"{newest.date or 'no date'}: " + "; ".join(each.source for each in reversed(quotes))
    note = Finding("plan-assumed", "notes", subject, numbers)
    return Priced(way, money, source, uncertain, typical, (note,), str(numbers["tier"]), newest.date or "")


def _day(date: str) -> datetime.date:
    return datetime.date.fromisoformat(date if len(date) == 10 else f"{date}-01")


# Energy of work, modelled. Numbers may be arrays (theory/number.py); power in watts, energy in joules.


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


def energy_cost(energy: Number, price_per_kwh: Number) -> Number:
    """Cost of `energy` joules, in the unit of the price."""
    return amount("energy", energy) / JOULES_PER_KWH * amount("price_per_kwh", price_per_kwh)


def energy_share(power_w: Number, price_per_kwh: Number, capital_per_hour: Number) -> Number:
    """Share of energy in the hourly cost of a node: energy / (energy + capital)."""
    hourly = energy_cost(energy_j(power_w, 3600), price_per_kwh)
    return hourly / rate("hourly cost", hourly + amount("capital_per_hour", capital_per_hour))
