"""Break-even of buying: after how many months, from which share of hours on, and against which rent."""

from __future__ import annotations

from decimal import Decimal

from twinlens.planning.cost.algebra import exact
from twinlens.planning.figure import Figure, Input, absent
from twinlens.planning.roi.outlay import outlay
from twinlens.planning.roi.terms import Terms, Way
from twinlens.record.finding import Finding

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
                  max(worst, found) if is_banded and worst is not None else None)  # fmt: skip


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
