"""The answer to whether to buy: costs over each horizon, where buying begins to pay, and what would change that."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from twinlens.planning.cost.algebra import exact
from twinlens.planning.outlay import PRICES, SHARES_A_YEAR, Terms, Way, outlay
from twinlens.record.finding import Finding, each_once
from twinlens.theory.figure import Figure, Input, absent

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


# Break-even of buying: after how many months, from which share of hours on, and against which rent.

MOST_MONTHS = 240
"""Twenty years: what pays later than that does not pay."""


def advantage(other: Way, terms: Terms, months: int) -> Decimal:
    """What buying saves over some months against another way, in money of today; negative where it costs more."""
    return exact(outlay(other, terms, months).value) - exact(outlay("buy", terms, months).value)


def months_until(other: Way, terms: Terms) -> Figure:
    """Months after which buying has cost no more, the last one in part; absent, as never, beyond twenty years."""
    name = f"months-{other}"
    found = _months(other, terms)
    if found is None:
        return absent(name, "months", Finding("plan-never", "notes", other, {"months": MOST_MONTHS}))
    best, worst = (_months(other, terms.best_for_buying(is_best=is_best)) for is_best in (True, False))
    is_banded = best is not None and worst is not None and best < worst
    parts = (outlay("buy", terms, 12), outlay(other, terms, 12))
    return Figure(name, found, "months", "the months after which buying ({0} over 12) costs no more than {1}", parts,
                  min(best, found) if is_banded and best is not None else None,
                  max(worst, found) if is_banded and worst is not None else None, law="break-even")  # fmt: skip


def _months(other: Way, terms: Terms) -> Decimal | None:
    before = -exact(terms.buy.value) if terms.resale_falls is None else advantage(other, terms, 0)
    for month in range(1, MOST_MONTHS + 1):
        after = advantage(other, terms, month)
        if after >= 0:
            part = -before / (after - before) if before < 0 < after - before else Decimal(1 if before < 0 else 0)
            return month - 1 + part
        before = after
    return None


def share_from(other: Way, terms: Terms, months: int) -> Figure:
    """The share of hours at which both cost the same over some months: they grow with it in straight lines.

    0 where buying is cheaper even of a machine that stands idle; absent, as never, where it is not at full use. Against
    a reservation, which is paid idle too, it is the share up to which buying is cheaper.
    """
    name = f"share-{other}-{months}"
    idle, full = (advantage(other, terms.at("busy", Decimal(end)), months) for end in (0, 1))
    parts = (
        Input("idle", abs(idle), terms.currency, "between both at 0 %"),
        Input("full", abs(full), terms.currency, "between both at 100 %"),
    )
    if idle < 0 and full < 0:
        return absent(name, "share", Finding("plan-never", "notes", other, {"share_months": months}))
    if idle >= 0 and full >= 0:
        return Figure(name, Decimal(0), "share", "buying saves {0} even at 0 %, and {1} at 100 %", parts)
    return Figure(name, idle / (idle - full), "share", "{0} / ({0} + {1})", parts)


def rent_needed(terms: Terms, months: int) -> Figure:
    """The rent, of an hour of all devices together, at which buying pays after exactly some months."""
    name, unit = f"rent-needed-{months}", f"{terms.currency}/h"
    if terms.rent is None or not terms.busy or months <= terms.delivery:
        return absent(name, unit, Finding("plan-never", "notes", "rent", {"share_months": months}))
    free, dear = (advantage("rent", terms.at("rent", Decimal(end)), months) for end in (0, 1))
    parts = (
        Input("lacking", -free, terms.currency, "at no rent"),
        Input("each", dear - free, terms.currency, "more for each 1 of rent"),
    )
    return Figure(name, -free / (dear - free), unit, "{0} / {1}", parts)


# Sensitivity of a decision: each input at its ends, one at a time, sorted by how far it moves the answer.

STEP = Decimal("0.2")
_MOST = (Decimal("0.99"), Decimal(1))
"""The highest share a year, and the highest of hours."""
SHARES = (Decimal("0.05"), Decimal("0.1"), Decimal("0.2"), Decimal("0.33"), Decimal("0.5"), Decimal("0.75"), Decimal(1))


@dataclass(frozen=True, slots=True)
class Swing:
    """One input from `low` to `high`, and what buying saves at each; `is_quoted`: its stated range, else ±20 %."""

    name: str
    low: Decimal
    high: Decimal
    at_low: Decimal
    at_high: Decimal
    is_quoted: bool

    @property
    def width(self) -> Decimal:
        return abs(self.at_high - self.at_low)

    @property
    def flips(self) -> bool:
        """Whether it alone decides."""
        return (self.at_low < 0) != (self.at_high < 0)

    def __json__(self) -> dict[str, Any]:
        numbers = {"low": self.low, "high": self.high, "at_low": self.at_low, "at_high": self.at_high}
        words = {name: str(number) for name, number in numbers.items()}
        return {"name": self.name, **words, "is_quoted": self.is_quoted, "flips": self.flips}


def saved(terms: Terms, months: int) -> Decimal:
    """What buying saves over some months against the cheapest other way; negative where it costs more."""
    return min(advantage(way, terms, months) for way in terms.ways() if way != "buy")


def tornado(terms: Terms, months: int) -> tuple[Swing, ...]:
    """Every input that is known and not 0, the one that moves the answer most first."""
    found = []
    for name in (*PRICES, "busy", *SHARES_A_YEAR):
        ends = _ends(terms, name)
        if ends is not None:
            low, high, is_quoted = ends
            at = [saved(terms.at(name, end), months) for end in (low, high)]
            found.append(Swing(name, low, high, at[0], at[1], is_quoted))
    return tuple(sorted((each for each in found if each.width), key=lambda each: -each.width))


def frontier(terms: Terms, months: tuple[int, ...]) -> tuple[tuple[Decimal, tuple[Way, ...]], ...]:
    """The cheapest way for each share of hours used, over each number of months."""
    return tuple((busy, tuple(cheapest(terms.at("busy", busy), each) for each in months)) for busy in SHARES)


def cheapest(terms: Terms, months: int) -> Way:
    """Of equals the one that binds least: an API, then a rent, a reservation, and buying."""
    others = [way for way in ("api", "rent", "reserved") if way in terms.ways()]
    best = min(others, key=lambda way: advantage(way, terms, months))
    return "buy" if advantage(best, terms, months) > 0 else best


def _ends(terms: Terms, name: str) -> tuple[Decimal, Decimal, bool] | None:
    known = getattr(terms, name)
    if known is None:
        return None
    if name in PRICES and known.low is not None:
        return exact(known.low), exact(known.high), True
    value = exact(known.value if name in PRICES else known)
    high = value * (1 + STEP)
    return (
        None if not value else (value * (1 - STEP), high if name in PRICES else min(high, _MOST[name == "busy"]), False)
    )
