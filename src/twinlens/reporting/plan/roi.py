"""Document of `plan roi`: costs over months, where buying pays, the cheapest way by use, and what flips it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from twinlens.planning.roi import FRONTIER_MONTHS, Roi, Swing
from twinlens.record.finding import Finding
from twinlens.reporting.document.block import DETAIL, Arithmetic, Block, Cell, Document, Drawing, Line, Table, row
from twinlens.reporting.plan.bands import bands
from twinlens.reporting.plan.cost import prices
from twinlens.reporting.wording.amount import WAYS, money_words
from twinlens.reporting.wording.finding import clause_of
from twinlens.theory.figure import Figure
from twinlens.units import digits

if TYPE_CHECKING:
    from twinlens.reporting.chart.figure import Figure as Chart


_MOST_SWINGS = 2
_SHOWN = (Decimal("0.1"), Decimal("0.33"), Decimal("0.5"), Decimal(1))
"""Shares of use on a first screen."""
_INPUTS = {"buy": "price", "busy": "hours used", "residual": "worth at the end", "discount": "discount rate",
           "rent_falls": "fall of the rent a year", "resale_falls": "fall of the resale a year"}  # fmt: skip


def roi_document(answer: Roi, notes: Sequence[Finding] = ()) -> Document:
    used = f"{digits(100 * float(answer.terms.busy), 2)} % of the hours used"
    ways = ", ".join(WAYS[one] for one in answer.terms.ways())
    return Document.of("Plan: buy or rent", f"{ways}; {used}", _blocks(answer, notes))


def _blocks(answer: Roi, notes: Sequence[Finding]) -> Iterator[Block]:
    months, currency = answer.months[-1], answer.terms.currency
    yield Line(f"{verdict_words(answer)} {pays_words(answer)}", is_lead=True)
    ways = zip(answer.terms.ways(), answer.costs(answer.months[-1]), strict=True)
    yield bands(f"Costs over {answer.months[-1]} months, in money of today.", [(WAYS[way], each) for way, each in ways])
    yield Drawing(partial(_charts, answer))
    yield _table(answer)
    yield row("used at", [_share(answer.shares(each)[0], each) for each in answer.months])
    yield row("rent at", [_rent(each) for each in answer.rents()], rank=DETAIL)
    yield _frontier(answer)
    yield row(f"over {months}", [_swing(each, currency) for each in answer.tornado()], first=_MOST_SWINGS)
    figures = answer.figures()
    yield Arithmetic(tuple(figures), (), tuple((each.name.replace("-", " "), each) for each in figures))
    yield row("assumed", [clause_of(each) for each in (*notes, *answer.assumptions())])
    yield prices(answer.costs(months))


def _charts(answer: Roi) -> Sequence[Chart]:
    from twinlens.reporting.plan.curve import outlay_chart, tornado_chart  # charts are heavy

    return [each for each in (outlay_chart(answer), tornado_chart(answer)) if each is not None]


def _table(answer: Roi) -> Table:
    currency, ways = answer.terms.currency, answer.terms.ways()
    rows = []
    for months in answer.months:
        best = answer.cheapest(months)
        costs = zip(ways, answer.costs(months), strict=True)
        shown = [Cell(_money(each), "strong" if way == best else "") for way, each in costs]
        saves = money_words(min(answer.npv(way, months) for way in answer.others()), currency)
        rows.append((Cell(f"{months} months"), *shown, Cell(WAYS[best]), Cell(saves)))
    heads = ("costs today", *ways, "cheapest", "buying saves")
    return Table("All that each way costs, in money of today.", heads, tuple(rows),
                 ("left", *("right" for _ in ways), "left", "right"))  # fmt: skip


def _share(figure: Figure, months: int) -> str:
    return f"{'never' if figure.value is None else f'{digits(100 * float(figure.value), 2)} %'} over {months} months"


def _rent(figure: Figure) -> str:
    return f"{_money(figure)} pays in {figure.name.removeprefix('rent-needed-')} months"


def _money(figure: Figure) -> str:
    return "never" if figure.value is None else money_words(Decimal(figure.value), figure.unit)


def _frontier(answer: Roi) -> Table:
    """The cheapest way by use; few shares of use on a first screen."""
    rows = {
        busy: (Cell(f"{100 * busy:.0f} % used"), *(Cell(WAYS[way], "good" if way == "buy" else "") for way in ways))
        for busy, ways in answer.frontier()
    }
    short = tuple(line for busy, line in rows.items() if busy in _SHOWN)
    heads = ("cheapest", *(f"{each} months" for each in FRONTIER_MONTHS))
    sides = tuple("left" for _ in heads)
    return Table("The cheapest way, by use and by months.", heads, tuple(rows.values()), sides, short=short, more="")


def _swing(swing: Swing, currency: str) -> str:
    flips = ", which flips it" if swing.flips else ""
    ends = f"{money_words(swing.at_low, currency)} to {money_words(swing.at_high, currency)}"
    how = "as quoted" if swing.is_quoted else "±20 %"
    return f"{_INPUTS.get(swing.name, swing.name)} {how}: saves {ends}{flips}"


# Sentences of `plan roi` that its screen and its page share: what is cheapest, and from which month buying pays.


def verdict_words(answer: Roi) -> str:
    """ "Buying saves $68,152 over 36 months, with 100 % of the hours used."."""
    saved, months, busy = answer.saved(), answer.months[-1], digits(100 * float(answer.terms.busy), 2)
    what, way = money_words(abs(saved), answer.terms.currency), WAYS[answer.cheapest(months)]
    verdict = f"Buying saves {what}" if saved > 0 else f"{way[0].upper()}{way[1:]} is cheaper by {what}"
    return f"{verdict} over {months} months, with {busy} % of the hours used."


def pays_words(answer: Roi) -> str:
    """ "Buying pays against renting from month 11.6 (8.94 to 14.3)."."""
    pays = [f"against {WAYS[each.name.removeprefix('months-')]} {_months(each)}" for each in answer.break_even()]
    return f"Buying pays {'; '.join(pays)}."


def _months(figure: Figure) -> str:
    if figure.value is None:
        return "never"
    band = f" ({digits(float(figure.low or 0))} to {digits(float(figure.high))})" if figure.high is not None else ""
    return f"from month {digits(float(figure.value))}{band}"
