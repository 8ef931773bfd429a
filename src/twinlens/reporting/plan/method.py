"""Document of `plan method`: all ways with what they meet, take and cost, why, and what would change the choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.planning.method import Method, Way
from twinlens.record.finding import Finding
from twinlens.reporting.document.block import DETAIL, Arithmetic, Block, Cell, Document, Line, Table, Tone, row
from twinlens.reporting.plan.bands import bands
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.planned.method import PARTS, WAYS, because_words, head_words, mark_words
from twinlens.theory.figure import Figure
from twinlens.units import digits

_TONES: dict[str, Tone] = {"yes": "good", "partly": "doubt", "no": "bad"}
_LEVELS = {"yes": "yes", "partly": "part", "no": "no"}
_MOST_FLIPS = 6


def method_document(answer: Method, notes: Sequence[Finding] = ()) -> Document:
    return Document.of("Plan: method", "How a model comes to know and answer what is needed.", _blocks(answer, notes))


def _blocks(answer: Method, notes: Sequence[Finding]) -> Iterator[Block]:
    yield Line(head_words(answer), "good" if answer.chosen else "bad", is_lead=True)
    costs = [(WAYS[way.name], way.cost) for way in answer.ways]
    yield bands(f"Dollars in {answer.asked.need.months} months.", costs)
    yield _table(answer)
    if answer.chosen and answer.chosen.meets:
        yield row("because", because_words(answer.chosen))
    yield row("ruled out", _out(answer))
    yield row("flips", [clause_of(each) for each in answer.flips], first=_MOST_FLIPS)
    for way in answer.ways:
        words = [*because_words(way), *map(clause_of, way.against)] or ["nothing is against it"]
        yield row(WAYS[way.name], words, rank=DETAIL)
        inner = [each for figure in (way.once, way.monthly) for each in figure.inputs if isinstance(each, Figure)]
        tops = (way.once, way.monthly, way.hours, way.cost)
        told = tuple((f"{WAYS[way.name]}: {each.name}", each) for each in (*inner, *tops) if each.value)
        yield Arithmetic(tuple(each for each in tops if each.value), (), told, mark="", tone="dim")
    yield row("assumed", [clause_of(each) for each in (*notes, *answer.assumptions())], "dim")


def _out(answer: Method) -> list[str]:
    """Each reason once, after all the ways that it puts out of the question."""
    reasons: dict[str, list[str]] = {}
    for way in answer.ways:
        if way.against:
            reasons.setdefault(clause_of(way.against[0]), []).append(WAYS[way.name])
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def _table(answer: Method) -> Table:
    """Without the last columns first where a terminal is narrow."""
    parts, months = answer.asked.need.parts, answer.asked.need.months
    heads = ("", "", *(PARTS[part] for part in parts), "trains\non", "h\nonce", "h a\nmonth", f"$ in {months}\nmonths")
    rows = tuple(_row(way, answer) for way in answer.ways)
    start = len(parts) + 2
    return Table("Each way, and how far it meets what is needed.", heads, rows,
                 ("left", "left", *("left" for _ in parts), "right", "right", "right", "right"),
                 drop=(start, start, start))  # fmt: skip


def _row(way: Way, answer: Method) -> tuple[Cell, ...]:
    mark = mark_words(way, answer)
    tone: Tone = {"→": "strong", "✗": "dim"}.get(mark, "")  # type: ignore[assignment]
    levels = (Cell(_LEVELS[rule.level], _TONES[rule.level]) for _, rule in way.meets)
    trains = Cell("" if way.memory is None else f"{way.memory.devices}", tone)
    numbers = (Cell(_number(each), tone) for each in (way.once, way.monthly, way.cost))
    return Cell(mark), Cell(WAYS[way.name], tone), *levels, trains, *numbers


def _number(figure: Figure) -> str:
    if figure.value is None:
        return "?"
    value = float(figure.value)
    return "0" if value == 0 else f"{value:,.0f}" if value >= 1000 else digits(value)
