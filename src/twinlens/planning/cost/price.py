"""A price as a plan uses it: an amount of money with its source, as a figure whose band is the quoted range."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from twinlens.planning.figure import Figure
from twinlens.record.finding import Finding
from twinlens.spec.money import Money


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
