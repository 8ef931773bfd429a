"""A price as a plan uses it: an amount of money with its source, as a figure whose band is the quoted range."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.planning.figure import Figure
from twinlens.record.finding import Finding
from twinlens.spec.money import Money


@dataclass(frozen=True, slots=True)
class Priced:
    """`name`: what it is for (buy, rent, energy …). `source`: "asked" where it was typed, else when and who."""

    name: str
    money: Money
    source: str = "asked"
    uncertain: bool = False

    @property
    def currency(self) -> str:
        return self.money.currency

    def figure(self) -> Figure:
        """The middle of the range, with its ends as the band."""
        money = self.money
        notes: tuple[Finding, ...] = ()
        if money.is_range:
            notes = (Finding("plan-assumed", "notes", "middle-price", {"taken": str(money.middle), "price": self.name,
                     "low": str(money.low), "high": str(money.high), "unit": money.unit}),)  # fmt: skip
        ends = (money.low, money.high) if money.is_range else (None, None)
        return Figure(
            self.name, money.middle, money.unit, low=ends[0], high=ends[1], origin="quoted", source=self.source,
            assumptions=notes,
        )  # fmt: skip
