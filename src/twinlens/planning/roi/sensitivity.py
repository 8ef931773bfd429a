"""Sensitivity of a decision: each input at its ends, one at a time, sorted by how far it moves the answer."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from twinlens.planning.cost.algebra import exact
from twinlens.planning.roi.break_even import advantage
from twinlens.planning.roi.terms import PRICES, SHARES_A_YEAR, Terms, Way

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
