"""Sentences of `plan roi` that its screen and its page share: what is cheapest, and from which month buying pays."""

from __future__ import annotations

from twinlens.planning.figure import Figure
from twinlens.planning.roi import Roi
from twinlens.reporting.wording.money import WAYS, money_words
from twinlens.units import digits


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
