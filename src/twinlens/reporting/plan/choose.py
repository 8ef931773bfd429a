"""Document of `plan choose`: two rankings, one below the other and never one list, and what follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from twinlens.planning.choose.answer import Choice
from twinlens.planning.choose.candidate import Candidate, Ranking
from twinlens.planning.choose.wanted import ServingWanted
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import (
    DETAIL,
    Arithmetic,
    Bar,
    Bars,
    Block,
    Document,
    Line,
    More,
    Table,
    cells,
    row,
)
from twinlens.reporting.wording.amount import amount, money_words
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.planned.choose import RESOURCES, UNMOVED
from twinlens.theory.figure import Figure
from twinlens.units import digits

_FIRST = 3
_DRAWN = 12
_BESIDE = 2
"""More models than these are counted on the first screen, and named with --all."""
_SHOWN = 0.05
"""Percent below which a gain is none."""
_TIMES = {"inference": ("tpot", "per token"), "training": ("training-step", "step")}
_LEFT = {"no-training": "no training", "no-rate": "no known rate",
         "datacentre": "no data-centre part", "on-premise": "rented only",
         "power-unknown": "power not quoted", "whole-nodes": "no whole nodes", "tpot-and-ttft": "both targets",
         "tpot": "speed", "together": "too many together", "ecc": "ECC", "ttft": "TTFT"}  # fmt: skip
"""Constraints, as a count of those that fail them calls them."""


def choose_document(answer: Choice, notes: Sequence[Finding] = ()) -> Document:
    return Document.of("Plan: choose", f"{_asked_words(answer)}.", _blocks(answer, notes))


def _blocks(answer: Choice, notes: Sequence[Finding]) -> Iterator[Block]:
    """Ranks: a screen of 24 lines goes first without the cluster, then the specs, how it is sold, and the link."""
    first = answer.rankings[0].candidates[0]
    told = _models(first)
    more = [f"{len(first.parts) - _FIRST} more"] if len(first.parts) > _FIRST else []
    short, whole = _asked_words(answer, full=False), _asked_words(answer)
    yield Line(f"{whole}.", is_lead=True, short=f"{short}.")
    yield from map(_bars, answer.rankings)
    for ranking in answer.rankings:
        yield _table(ranking)
        yield from _shares(ranking)
    yield row("tied", [_tied(answer.rankings)])
    yield row("price", priced_words(answer), short=priced_words(answer, _FIRST))
    yield row("sold", sold_words(answer), short=sold_words(answer, _FIRST), rank=2)
    yield row("models", told, short=[*told[: 1 + _FIRST], *more])
    yield row("+10 %", [*_slopes(answer), UNMOVED], rank=DETAIL if first.parts else 3, first=len(_slopes(answer)))
    yield row("decided", _clauses(answer.branch))
    yield row("systems", _clauses(answer.system))
    apart = [each for each in answer.links if each.subject != "alone"] or answer.links[:1]
    links = [*apart[-1:], *(each for each in answer.links if each not in apart[-1:])]
    yield row("link", [clause_of(each) for each in links], rank=1, first=1)
    yield row("cards", [clause_of(each) for each in answer.cards], rank=DETAIL)
    yield row("cluster", [clause_of(each) for each in (*answer.cluster[-1:], *answer.cluster[:-1])], rank=4, first=1)
    yield row("not here", [clause_of(each) for each in answer.left_out], rank=DETAIL)
    yield from (_not_for(ranking) for ranking in answer.rankings)
    tops = [figure for each in answer.rankings for figure in _figures(each.candidates[0])]
    yield Arithmetic(tuple(tops), rank=DETAIL)
    yield row("doubtful", [clause_of(each) for each in notes if each.subject == "device-unverified"])
    yield row("left out", [_left_out(answer.rankings)])
    yield row("assumed", [clause_of(each) for each in notes], rank=DETAIL)
    considered = "; not considered: disaggregation" if answer.left_out else ""
    yield More(f"--all: candidates, reasons, cards, {len(notes)} assumed{considered}", "more")


def _clauses(finding: Finding | None) -> list[str]:
    return [] if finding is None else [clause_of(finding)]


def _figures(each: Candidate) -> Iterator[Figure]:
    yield from (each.rate, *each.times)
    if each.offer.power is not None:
        yield each.offer.power
    yield each.offer.million


def _asked_words(answer: Choice, *, full: bool = True) -> str:
    """The work of both lenses, in one sentence without its end."""
    wanted, parts = answer.wanted, []
    if wanted.serving:
        one = wanted.serving
        each = f" at {digits(1 / one.tpot_s, 2)} tokens/s" if one.tpot_s else ""
        many = len(one.beside)
        beside = [_beside(one, other) for other in one.beside] if full or many <= _BESIDE else [f"{many} models"]
        others = f", beside {', '.join(beside)}" if beside else ""
        parts.append(f"{100 * (1 - wanted.training_share):.3g} % inference ({clean(one.subject.name, 60)}, "
                     f"{_users(one)}{each}{others})")  # fmt: skip
    if wanted.training:
        two = wanted.training
        method = {"full": "full", "lora": "LoRA", "qlora": "QLoRA"}[two.method]
        parts.append(f"{100 * wanted.training_share:.3g} % training ({clean(two.subject.name, 60)}, {method}, "
                     f"{two.sequences:,} × {two.length:,} tokens)")  # fmt: skip
    return ", ".join(parts)


def _users(one: ServingWanted) -> str:
    users = "1 user" if one.users == 1 else f"{one.users:,} users"
    return f"{users} of {one.prompt + one.answer:,} tokens"


def _beside(one: ServingWanted, other: ServingWanted) -> str:
    own = "" if _users(one) == _users(other) else f" with {_users(other)}"
    return f"{clean(other.subject.name, 60)}{own}"


def _models(first: Candidate) -> list[str]:
    """Of the first system, the devices of each model and what limits it there; nothing for one model."""
    told = [f"{clean(each.model, 60)} on {each.devices} ({_more(each)})" for each in first.parts]
    return [f"{first.devices} × {first.device}, to each its own", *told] if told else []


def _bars(ranking: Ranking) -> Bars:
    shown = ranking.candidates[:_DRAWN]
    bars = tuple(Bar(_name(each), each.rate, _rate(each)) for each in shown)
    tied = sum(each.rank[0] == 1 for each in ranking.candidates)
    many = f"{tied} of {len(ranking.candidates)} tie for the first place"
    first = many if tied > 1 else f"{_name(shown[0])} is first"
    title = f"{ranking.lens.capitalize()}: {first}."
    caption = (
        "Tokens/s of one device that is paid for, in the smallest system that is sold and keeps the targets. "
        "Line: 90 % band of each alone; ranks are of comparisons, which are narrower."
    )
    return Bars(bars, title, caption)


def _name(each: Candidate) -> str:
    return f"{each.devices} × {each.device} {each.precision}"


def _table(ranking: Ranking) -> Table:
    """Without what more of a resource gives, and then without the format, where a device has a long name."""
    rows = tuple(cells(tuple(_cells(each, ranking.lens))) for each in ranking.candidates)
    heads = (ranking.lens.capitalize(), *_heads(ranking))
    caption = f"{ranking.lens.capitalize()}: the smallest system of each device and format."
    sides = ("left", "left", "right", "right", "right", "right", "right", "left")
    return Table(caption, heads, rows, sides, short=rows[:_FIRST], more="", drop=(7, 1), gap=1)


def _heads(ranking: Ranking) -> tuple[str, ...]:
    return ("", "tokens/s each", "rank", _TIMES[ranking.lens][1], "power", "per M", "10 % more of")


def _shares(ranking: Ranking) -> Iterator[Table]:
    rows = tuple(
        cells((_name(each), clean(part.model, 60), *_cells(part, ranking.lens)))
        for each in ranking.candidates
        for part in each.parts
    )
    caption = "The devices of each model: its place were it alone, and what limits it."
    sides = ("left", "left", "left", "left", "right", "right", "right", "right", "right", "left")
    yield Table(caption, ("all", "model", "system", *_heads(ranking)), rows, sides, DETAIL, gap=1)


def _not_for(ranking: Ranking) -> Table:
    rows = tuple(cells((each.device, each.precision, clause_of(each.reason)), "dim") for each in ranking.rejected)
    heads, sides = (f"Not for {ranking.lens}", "format", "why"), ("left", "left", "left")
    return Table(f"Not for {ranking.lens}.", heads, rows, sides, DETAIL, remarks=True)


def _rate(each: Candidate) -> str:
    rate = each.rate
    return f"{_short(rate.value, 3)} ({_short(rate.low)}–{_short(rate.high)})"


def _cells(each: Candidate, lens: str) -> Iterator[str]:
    """A row of a ranking."""
    yield f"{each.devices} × {each.device}"
    yield each.precision
    yield _rate(each)
    low, high = each.rank
    yield f"{low}" if low == high else f"{low}–{high}"
    time = each.time(_TIMES[lens][0])
    yield "" if time is None or time.value is None else amount(float(time.value), "s")
    yield "not stated" if each.power_w is None else amount(each.power_w, "w")
    yield million_words(each)
    yield _more(each)


def _more(each: Candidate) -> str:
    name = each.limit.resource
    return "overhead" if name == "overhead" else f"{RESOURCES[name]} {_gain(each.limit.gains[name])}"


def _gain(times: float) -> str:
    """What a tenth more of something gives: "+8.2 %"."""
    percent = 100 * (times - 1)
    return f"{percent:+.1f} %" if abs(percent) >= _SHOWN else "0 %"


def _short(value: object, significant: int = 2) -> str:
    number = float(value or 0)  # type: ignore[arg-type]
    if number >= 1000:
        return f"{digits(number / 1000, 2)}k"
    return f"{number:.0f}" if number >= 99.5 else digits(number, significant)


def _tied(rankings: Sequence[Ranking]) -> str:
    """How many share the first place with the first."""
    told = []
    for ranking in rankings:
        first = sum(each.rank[0] == 1 for each in ranking.candidates)
        if first > 1:
            told.append(f"{ranking.lens} {first} of {len(ranking.candidates)}")
    return f"{', '.join(told)} with the first (95 % comparisons)" if told else ""


def _slopes(answer: Choice) -> list[str]:
    """Of one device, what a tenth more of each row of its datasheet gives in tokens/s of either lens."""
    first = answer.rankings[0].candidates[0]
    found = {ranking.lens: one for ranking in answer.rankings if (one := ranking.of(first.device)) is not None}
    told, still = [], []
    for name in (each for each in RESOURCES if each in first.limit.gains):
        gains = [one.limit.gains[name] for one in found.values()]
        if all(100 * abs(gain - 1) < _SHOWN for gain in gains):
            still.append(RESOURCES[name])
        else:
            told.append(f"{RESOURCES[name]} {', '.join(map(_gain, gains))}")
    nothing = [f"nothing by {', '.join(still)}"] if still else []
    return [f"{first.device}, {' and '.join(found)}: {(told or nothing)[0]}", *told[1:], *(nothing if told else [])]


def _left_out(rankings: Sequence[Ranking]) -> str:
    """How many, by the constraint that fails."""
    told = []
    for ranking in rankings:
        counted = Counter(each.reason.subject for each in ranking.rejected)
        reasons = ", ".join(f"{_LEFT.get(name, name)} {many}" for name, many in counted.most_common(4))
        if reasons:
            told.append(f"{ranking.lens}: {reasons}")
    return "; ".join(told)


# Offers of a choice in words: how systems are sold, what is quoted for them, and what a million tokens cost.


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
