"""Offers of a choice in words: how systems are sold, what is quoted for them, and what a million tokens cost."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.planning.choose.answer import Choice
from twinlens.planning.choose.candidate import Candidate
from twinlens.reporting.wording.amount import money_words


def sold_words(answer: Choice, most: int | None = None) -> list[str]:
    """Of the first `most` of each lens (None: of all) how they are sold, and what of it is used."""
    units: dict[tuple[int, str], dict[str, str]] = {}
    for each in _shown(answer, most):
        if each.offer.unit > 1:
            part = "" if each.used == each.devices else f" ({each.used} of {each.devices} used)"
            told = units.setdefault((each.offer.unit, each.offer.unit_word), {})
            told[each.device] = told.get(each.device) or f"{each.device}{part}"
    return [f"{', '.join(told.values())} in {word}s of {unit}" for (unit, word), told in units.items()]


def priced_words(answer: Choice, most: int | None = None) -> list[str]:
    """Of the first `most` of each lens (None: of all) the quote of one device, and those that nobody quotes."""
    quoted, unknown = {}, []
    for each in _shown(answer, most):
        price = each.offer.price
        if price is None:
            unknown.append(each.device)
            continue
        tier = price.tier.replace("-", " ")
        when = f"{tier}, {price.when}" if price.when else f"{tier}, no date"
        quoted[each.device] = f"{each.device} {money_words(price.figure().number, price.money.unit)} ({when})"
    none = ", ".join(dict.fromkeys(unknown)) if most is None or not quoted else ""
    return [*quoted.values(), *([f"{none}: no price quoted"] if none else [])]


def _shown(answer: Choice, most: int | None) -> Iterator[Candidate]:
    for ranking in answer.rankings:
        yield from ranking.candidates[:most]


def million_words(each: Candidate) -> str:
    """What a million tokens cost; never 0 where nobody quotes a price."""
    cost = each.offer.million
    return "no price" if cost.value is None else money_words(cost.number, cost.unit.partition("/")[0])
