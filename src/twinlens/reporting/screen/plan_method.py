"""The choice of a method on one screen: all ways with what they meet, take and cost, why, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.planning.figure import Figure
from twinlens.planning.method.answer import Method
from twinlens.planning.method.way import Way
from twinlens.record.finding import Finding
from twinlens.reporting.text.fitted import Fitted, FittedTable
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.plan import figure_words
from twinlens.reporting.wording.plan_method import PARTS, WAYS, because_words, head_words, mark_words
from twinlens.units import digits

_STYLES = {"yes": "green", "partly": "yellow", "no": "red"}
_LEVELS = {"yes": "yes", "partly": "part", "no": "no"}
_MOST_FLIPS = 6


def method_screen(answer: Method, notes: Sequence[Finding] = (), *, why: bool = False) -> RenderableType:
    """A screen of 80 columns. `why`: reasons of every way, and every figure with its formula."""
    return Fitted(lambda width: Stack(*_lines(answer, notes, width, why)))


def _lines(answer: Method, notes: Sequence[Finding], width: int, why: bool) -> Iterator[RenderableType]:
    yield hanging("", head_words(answer), "bold green" if answer.chosen else "bold red")
    yield _table(answer, width)
    if answer.chosen and answer.chosen.meets:
        yield hanging("because  ", "; ".join(because_words(answer.chosen)), "")
    out = _out(answer)
    if out:
        yield hanging("✗        ", "; ".join(out), "")
    if answer.flips:
        yield hanging("flips    ", "; ".join(map(clause_of, answer.flips[: None if why else _MOST_FLIPS])), "")
    if why:
        for way in answer.ways:
            yield from _arithmetic(way)
    said = [clause_of(each) for each in (*notes, *answer.assumptions())]
    if said:
        yield hanging("assumed  ", "; ".join(said), "dim")


def _out(answer: Method) -> list[str]:
    """Each reason once, after all the ways that it puts out of the question."""
    reasons: dict[str, list[str]] = {}
    for way in answer.ways:
        if way.against:
            reasons.setdefault(clause_of(way.against[0]), []).append(WAYS[way.name])
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def _arithmetic(way: Way) -> Iterator[RenderableType]:
    words = [*because_words(way), *map(clause_of, way.against)]
    yield hanging("         ", f"{WAYS[way.name]}: {'; '.join(words) or 'nothing is against it'}", "")
    inner = [each for figure in (way.once, way.monthly) for each in figure.inputs if isinstance(each, Figure)]
    for each in (*inner, way.once, way.monthly, way.hours, way.cost):
        if each.value:
            yield hanging("         ", f"  {each.name}: {figure_words(each)}", "dim")


def _table(answer: Method, width: int) -> RenderableType:
    """Without what is least missed where the screen is narrow."""
    parts, months = answer.asked.need.parts, answer.asked.need.months
    heads = ("", "", *(PARTS[part] for part in parts), "trains\non", "h\nonce", "h a\nmonth", f"$ in {months}\nmonths")
    sides = ("left", "left", *("left" for _ in parts), "right", "right", "right", "right")
    table = FittedTable(heads, sides, tuple(_row(way, answer) for way in answer.ways))
    while table.width > width and len(table.sides) > len(parts) + 3:
        table = table.without(len(parts) + 2)
    return table.table()


def _row(way: Way, answer: Method) -> tuple[Text, ...]:
    mark = mark_words(way, answer)
    style = {"→": "bold", "✗": "dim"}.get(mark, "")
    levels = (Text(_LEVELS[rule.level], style=_STYLES[rule.level]) for _, rule in way.meets)
    trains = Text("" if way.memory is None else f"{way.memory.devices}", style=style)
    numbers = (Text(_number(each), style=style) for each in (way.once, way.monthly, way.cost))
    return (Text(mark), Text(WAYS[way.name], style=style), *levels, trains, *numbers)


def _number(figure: Figure) -> str:
    if figure.value is None:
        return "?"
    value = float(figure.value)
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 1000 else digits(value)
