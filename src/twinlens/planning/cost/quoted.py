"""Quotes of a catalogue joined into one price: like with like, by tier and by date, and never a middle over tiers."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from statistics import median

from twinlens.planning.cost.price import Priced
from twinlens.record.finding import Finding
from twinlens.spec.money import Money
from twinlens.spec.price import Price

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
