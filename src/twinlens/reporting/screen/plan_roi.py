"""Buy or rent on one screen: costs over months, where buying pays, the cheapest way by use, and what flips it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.planning.figure import Figure
from twinlens.planning.roi.answer import FRONTIER_MONTHS, Roi
from twinlens.planning.roi.sensitivity import Swing
from twinlens.record.finding import Finding
from twinlens.reporting.screen.plan_cost import row, sources
from twinlens.reporting.text.fitted import Fitted, FittedTable
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.money import WAYS, money_words
from twinlens.reporting.wording.plan import figure_words
from twinlens.reporting.wording.plan_roi import pays_words, verdict_words
from twinlens.units import digits

_MOST_SWINGS = 2
_SHOWN = (Decimal("0.1"), Decimal("0.33"), Decimal("0.5"), Decimal(1))
"""Shares of use on the first screen."""
_INPUTS = {"buy": "price", "busy": "hours used", "residual": "worth at the end", "discount": "discount rate",
           "rent_falls": "fall of the rent a year", "resale_falls": "fall of the resale a year"}  # fmt: skip


def roi_screen(answer: Roi, notes: Sequence[Finding] = (), *, why: bool = False) -> RenderableType:
    """A screen of 80 columns. `why`: every figure with its formula."""
    return Fitted(lambda width: Stack(*_lines(answer, notes, why)))


def _lines(answer: Roi, notes: Sequence[Finding], why: bool) -> Iterator[RenderableType]:
    months = answer.months[-1]
    yield hanging("", f"{verdict_words(answer)} {pays_words(answer)}", "bold")
    yield _table(answer)
    yield from row("used at   ", [_share(answer.shares(each)[0], each) for each in answer.months])
    if why:
        yield from row("rent at   ", [_rent(each) for each in answer.rents()])
    yield _frontier(answer, why)
    swings = answer.tornado() if why else answer.tornado()[:_MOST_SWINGS]
    yield from row(f"over {months:<5}", [_swing(each, answer.terms.currency) for each in swings])
    for place, each in enumerate(answer.figures() if why else ()):
        mark = "computed  " if place == 0 else "          "
        yield hanging(mark, f"{each.name.replace('-', ' ')}: {figure_words(each)}", "")
    yield from row("assumed   ", [clause_of(each) for each in (*notes, *answer.assumptions())])
    yield from row("prices    ", sources(answer.costs(months), 200 if why else 40))


def _table(answer: Roi) -> RenderableType:
    currency, ways = answer.terms.currency, answer.terms.ways()
    rows = []
    for months in answer.months:
        best = answer.cheapest(months)
        costs = zip(ways, answer.costs(months), strict=True)
        shown = [Text(_money(each), style="bold" if way == best else "") for way, each in costs]
        saves = money_words(min(answer.npv(way, months) for way in answer.others()), currency)
        rows.append((Text(f"{months} months"), *shown, Text(WAYS[best]), Text(saves)))
    heads = ("costs today", *ways, "cheapest", "buying saves")
    return FittedTable(heads, ("left", *("right" for _ in ways), "left", "right"), tuple(rows)).table()


def _share(figure: Figure, months: int) -> str:
    return f"{'never' if figure.value is None else f'{digits(100 * float(figure.value), 2)} %'} over {months} months"


def _rent(figure: Figure) -> str:
    return f"{_money(figure)} pays in {figure.name.removeprefix('rent-needed-')} months"


def _money(figure: Figure) -> str:
    return "never" if figure.value is None else money_words(Decimal(figure.value), figure.unit)


def _frontier(answer: Roi, why: bool) -> RenderableType:
    rows = tuple(
        (Text(f"{100 * busy:.0f} % used"), *(Text(WAYS[way], style="green" if way == "buy" else "") for way in ways))
        for busy, ways in answer.frontier()
        if why or busy in _SHOWN
    )
    heads = ("cheapest", *(f"{each} months" for each in FRONTIER_MONTHS))
    return FittedTable(heads, ("left", *("left" for _ in FRONTIER_MONTHS)), rows).table()


def _swing(swing: Swing, currency: str) -> str:
    flips = ", which flips it" if swing.flips else ""
    ends = f"{money_words(swing.at_low, currency)} to {money_words(swing.at_high, currency)}"
    how = "as quoted" if swing.is_quoted else "±20 %"
    return f"{_INPUTS.get(swing.name, swing.name)} {how}: saves {ends}{flips}"
