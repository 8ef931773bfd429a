"""A choice on one screen: two rankings, one below the other and never one list, and what follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.planning.choose.answer import Choice
from twinlens.planning.choose.candidate import Candidate, Ranking
from twinlens.planning.choose.wanted import ServingWanted
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.screen.plan_offer import million_words, priced_words, sold_words
from twinlens.reporting.text.fitted import Fitted, FittedTable, shortest
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.amount import amount
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.plan_choose import RESOURCES, UNMOVED
from twinlens.units import digits

_FIRST = 3
_BESIDE = 2
"""More models than these are counted on the first screen, and named with --all."""
_LEAST = ("cluster", "specs", "sold", "link")
"""Rows that a screen of 24 lines does without, the first of them first."""
_SHOWN = 0.05
"""Percent below which a gain is none."""
_TIMES = {"inference": ("tpot", "per token"), "training": ("training-step", "step")}


def choose_screen(answer: Choice, notes: Sequence[Finding] = (), *, full: bool = False) -> RenderableType:
    """24 lines of 80 columns; `full`: every candidate, every reason, every assumption."""
    if full:
        return Fitted(lambda width: Stack(*_lines(answer, notes, full, width, ())))
    leaves = [_LEAST[:many] for many in range(len(_LEAST) + 1)]
    return Fitted(lambda width: shortest((Stack(*_lines(answer, notes, full, width, each)) for each in leaves), width))


def _lines(
    answer: Choice, notes: Sequence[Finding], full: bool, width: int, without: Sequence[str]
) -> Iterator[RenderableType]:
    """`without`: rows that are left to --all."""
    yield hanging("", f"{asked_words(answer, full=full)}.", "bold")
    for ranking in answer.rankings:
        yield _fitting(_table(ranking, full), width).table()
    yield from _row("tied     ", [_tied(answer.rankings)])
    yield from _row("price    ", priced_words(answer, None if full else _FIRST))
    if "sold" not in without:
        yield from _row("sold     ", sold_words(answer, None if full else _FIRST))
    yield from _row("models   ", models(answer, full=full))
    if "specs" not in without and (full or not answer.rankings[0].candidates[0].parts):
        yield from _row("+10 %    ", [*slopes(answer), *([UNMOVED] if full else [])])
    yield from _row("branch   ", _clauses(answer.branch))
    yield from _row("systems  ", _clauses(answer.system))
    links = answer.links if full else [each for each in answer.links if each.subject != "alone"] or answer.links[:1]
    if "link" not in without:
        yield from _row("link     ", [clause_of(each) for each in (links if full else links[-1:])])
    if full:
        yield from _row("cards    ", [clause_of(each) for each in answer.cards])
    cluster = answer.cluster if full else answer.cluster[-1:]
    if "cluster" not in without:
        yield from _row("cluster  ", [clause_of(each) for each in cluster])
    if full:
        yield from _row("", [clause_of(each) for each in answer.left_out])
        for ranking in answer.rankings:
            yield hanging("", f"Not for {ranking.lens}:", "bold")
            for each in ranking.rejected:
                named = each.device if each.precision == "any" else f"{each.device} in {each.precision}"
                yield hanging("  ", f"{named} {clause_of(each.reason)}", "dim")
        yield from _row("assumed  ", [clause_of(each) for each in notes])
    else:
        yield from _row("doubtful ", doubtful(notes))
        yield from _row("left out ", [_left_out(answer.rankings)])
        apart = "; not considered: disaggregation" if answer.left_out else ""
        yield hanging("", f"--all: candidates, reasons, cards, {len(notes)} assumed{apart}", "dim")


def doubtful(notes: Sequence[Finding]) -> list[str]:
    """What of the first devices stands in the catalogue without a datasheet."""
    return [clause_of(each) for each in notes if each.subject == "device-unverified"]


def _row(mark: str, clauses: Sequence[str]) -> Iterator[RenderableType]:
    told = [each for each in clauses if each]
    if told:
        yield hanging(mark, "; ".join(told), "")


def _clauses(finding: Finding | None) -> list[str]:
    return [] if finding is None else [clause_of(finding)]


def asked_words(answer: Choice, *, full: bool = True) -> str:
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


def models(answer: Choice, *, full: bool = True) -> list[str]:
    """Of the first system, the devices of each model and what limits it there; nothing for one model."""
    first = answer.rankings[0].candidates[0]
    told = [f"{clean(each.model, 60)} on {each.devices} ({_more(each)})" for each in first.parts]
    if not full and len(told) > _FIRST:
        told = [*told[:_FIRST], f"{len(told) - _FIRST} more"]
    return [f"{first.devices} × {first.device}, to each its own: {', '.join(told)}"] if told else []


def _table(ranking: Ranking, full: bool) -> FittedTable:
    head = _TIMES[ranking.lens][1]
    shown = ranking.candidates if full else ranking.candidates[:_FIRST]
    rows = tuple(tuple(Text(cell) for cell in cells(each, ranking.lens)) for each in shown)
    heads = (ranking.lens.capitalize(), "", "tokens/s each", "rank", head, "power", "per M", "+10 % of …")
    return FittedTable(heads, ("left", "left", *["right"] * 5, "left"), rows, gap=1)


def cells(each: Candidate, lens: str) -> Iterator[str]:
    """A row of a ranking."""
    yield f"{each.devices} × {each.device}"
    yield each.precision
    rate = each.rate
    yield f"{_short(rate.value, 3)} ({_short(rate.low)}–{_short(rate.high)})"
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


def _fitting(table: FittedTable, width: int) -> FittedTable:
    """Without what more of a resource gives, and then without the format, where a device has a long name."""
    for place in (7, 1):
        table = table.without(place) if table.width > width else table
    return table


def _tied(rankings: Sequence[Ranking]) -> str:
    """How many share the first place with the first."""
    told = []
    for ranking in rankings:
        first = sum(each.rank[0] == 1 for each in ranking.candidates)
        if first > 1:
            told.append(f"{ranking.lens} {first} of {len(ranking.candidates)}")
    return f"{', '.join(told)} with the first (95 % comparisons)" if told else ""


def slopes(answer: Choice) -> list[str]:
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
    words = {"no-training": "no training", "no-rate": "no known rate",
             "datacentre": "no data-centre part", "on-premise": "rented only",
             "power-unknown": "power not quoted", "whole-nodes": "no whole nodes", "tpot-and-ttft": "both targets",
             "tpot": "speed", "together": "too many together", "ecc": "ECC", "ttft": "TTFT"}  # fmt: skip
    told = []
    for ranking in rankings:
        counted = Counter(each.reason.subject for each in ranking.rejected)
        reasons = ", ".join(f"{words.get(name, name)} {many}" for name, many in counted.most_common(4))
        if reasons:
            told.append(f"{ranking.lens}: {reasons}")
    return "; ".join(told)
