"""The answer to whether to buy: costs over each horizon, where buying begins to pay, and what would change that."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from twinlens.planning.figure import Figure, each_once
from twinlens.planning.roi.break_even import advantage, months_until, rent_needed, share_from
from twinlens.planning.roi.outlay import outlay
from twinlens.planning.roi.sensitivity import SHARES, Swing, cheapest, frontier, saved, tornado
from twinlens.planning.roi.terms import Terms, Way
from twinlens.record.finding import Finding

FRONTIER_MONTHS = (6, 12, 24, 36, 48, 60)


@dataclass(frozen=True, slots=True)
class Roi:
    """`months`: horizons in rising order. Everything else is computed from `terms`."""

    terms: Terms
    months: tuple[int, ...]
    assumed: tuple[Finding, ...] = ()

    def others(self) -> tuple[Way, ...]:
        return self.terms.ways()[1:]

    def costs(self, months: int) -> tuple[Figure, ...]:
        """What each way costs over a horizon."""
        return tuple(outlay(way, self.terms, months) for way in self.terms.ways())

    def cheapest(self, months: int) -> Way:
        return cheapest(self.terms, months)

    def npv(self, other: Way, months: int) -> Decimal:
        """What buying saves against another way, in money of today."""
        return advantage(other, self.terms, months)

    def saved(self) -> Decimal:
        """What buying saves over the longest horizon against the cheapest other way."""
        return saved(self.terms, self.months[-1])

    def break_even(self) -> tuple[Figure, ...]:
        """Months until buying pays against each other way."""
        return tuple(months_until(way, self.terms) for way in self.others())

    def shares(self, months: int) -> tuple[Figure, ...]:
        """Share of hours from which buying pays against each other way, over a horizon."""
        return tuple(share_from(way, self.terms, months) for way in self.others())

    def rents(self) -> tuple[Figure, ...]:
        """The rent at which buying pays after exactly each horizon."""
        return tuple(rent_needed(self.terms, each) for each in self.months) if self.terms.rent is not None else ()

    def tornado(self) -> tuple[Swing, ...]:
        return tornado(self.terms, self.months[-1])

    def frontier(self) -> tuple[tuple[Decimal, tuple[Way, ...]], ...]:
        return frontier(self.terms, FRONTIER_MONTHS)

    def figures(self) -> tuple[Figure, ...]:
        """Every figure: costs, months, shares and rents."""
        costs = [figure for each in self.months for figure in self.costs(each)]
        shares = [figure for each in self.months for figure in self.shares(each)]
        return (*costs, *self.break_even(), *shares, *self.rents())

    def assumptions(self) -> tuple[Finding, ...]:
        """All that was taken for granted, each once."""
        found = [note for figure in self.costs(self.months[-1]) for note in figure.all_assumptions()]
        return each_once((*self.assumed, *found))

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data."""
        ways = [{"busy": str(busy), "cheapest": found} for busy, found in self.frontier()]
        net = [
            {"against": way, "months": each, "npv": str(self.npv(way, each)), "currency": self.terms.currency}
            for way in self.others()
            for each in self.months
        ]
        return {
            "busy": str(self.terms.busy),
            "months": self.months,
            "cheapest": {str(each): self.cheapest(each) for each in self.months},
            "npv_of_buying": net,
            "figures": self.figures(),
            "tornado": self.tornado(),
            "frontier": {"months": FRONTIER_MONTHS, "shares": [str(each) for each in SHARES], "rows": ways},
            "assumptions": self.assumptions(),
        }
