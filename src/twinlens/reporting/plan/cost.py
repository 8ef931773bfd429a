"""Document of `plan cost`: an hour, a request, a million tokens and a month, hardware and energy apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.planning.cost.answer import Cost
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import (
    Arithmetic,
    Bar,
    Bars,
    Block,
    Document,
    Line,
    Row,
    Table,
    cells,
    row,
)
from twinlens.reporting.wording.amount import NAMES, money_words
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.planned.cost import cost_words, shown
from twinlens.theory.figure import Figure
from twinlens.units import digits

_ABSENT = "–"


def cost_document(answer: Cost, notes: Sequence[Finding] = ()) -> Document:
    rate = answer.traffic.throughput
    known = rate is not None and rate.value is not None
    subject = f"{shown(rate)} within the SLO" if known else "behind an API"
    return Document.of("Plan: cost", subject, _blocks(answer, notes))


def _blocks(answer: Cost, notes: Sequence[Finding]) -> Iterator[Block]:
    yield Line(" ".join(cost_words(answer)), is_lead=True)
    yield from _bars(answer)
    yield _table(answer)
    if answer.month is not None:
        twice, half = shown(answer.month.doubled), shown(answer.month.half_cent)
        yield row("doubling", [f"twice the users {twice}", f"half a cent a request {half}"])
        yield row("margin", [_margin(each) for each in answer.month.margins])
    yield row("training", _training(answer.training))
    yield row("carbon", [shown(each) for each in answer.carbon if each.value is not None])
    if answer.each.listed is not None:
        without = f"{shown(answer.each.total)}, and {shown(answer.each.listed)} without retries and cache hits"
        yield row("hidden", [without])
    figures = (*answer.hour(), *answer.figures())
    first = [each for each in (*answer.hour(), answer.each.total) if each.value is not None]
    yield Arithmetic(figures, _named(first), _named(figures))
    yield row("not said", sorted({clause_of(each.reason) for each in answer.figures() if each.reason is not None}))
    yield row("assumed", [clause_of(each) for each in (*notes, *answer.assumptions())])
    yield prices(answer.figures())


def _named(figures: Sequence[Figure]) -> tuple[tuple[str, Figure], ...]:
    return tuple((NAMES.get(each.name, each.name), _unwrapped(each)) for each in figures)


def _bars(answer: Cost) -> Iterator[Bars]:
    each, month = answer.each, answer.month
    if month is not None:
        bars = (month.hardware, month.energy, month.bill, month.doubled)
        yield from _bars_of(f"A month of {month.users:,} users costs", bars)
    yield from _bars_of("A request at full load costs", (each.hardware, each.energy, each.total))


def _bars_of(what: str, figures: Sequence[Figure]) -> Iterator[Bars]:
    whole = figures[2]
    if whole.value is not None:
        bars = tuple(Bar(NAMES.get(each.name, each.name), each, _money(each)) for each in figures)
        yield Bars(bars, f"{what} {_money(whole)}.", "Lines are bands, where prices or rates have one.")


def _table(answer: Cost) -> Table:
    each = answer.each
    rows: list[tuple[str, Figure | None, Figure | None, Figure | None]] = []
    if answer.month is not None:
        month = answer.month
        rows.append((f"a month of {month.users:,} users", month.bill, month.hardware, month.energy))
        if month.users != 1000:
            rows.append((NAMES["thousand-users"], month.per_thousand, None, None))
        rows += [(NAMES[one.name], one, None, None) for one in (month.request, month.million) if one is not None]
    if answer.machine is not None:
        hardware, energy = answer.hour()
        rows.append(("a busy hour", None, hardware, energy))
    name = "a request" if answer.machine is None else NAMES["request"]
    rows.append((name, each.total, each.hardware, each.energy))
    rows += [(NAMES[one.name], one, None, None) for one in each.million if one.value is not None]
    texts = tuple(cells((name, *map(_money, figures))) for name, *figures in rows)
    return Table("What it costs, hardware and energy apart.", ("", "total", "hardware", "energy"), texts)


def _money(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return _ABSENT if figure.value is None else money_words(float(figure.value), figure.unit.partition("/")[0])


def _margin(figure: Figure) -> str:
    if figure.name == "margin-gone":
        return f"gone at the latest from ×{digits(float(figure.value or 0))}"
    growth = figure.name.removeprefix("margin-")
    return f"{'use of now' if growth == '1' else f'×{growth}'} {shown(figure)}"


def _training(figures: Sequence[Figure]) -> list[str]:
    """The run, what of it a request bears, and where it stops to matter."""
    by_name = {each.name: shown(each) for each in figures}
    words = [f"{by_name['training']} once"] if by_name else []
    if "training-request" in by_name:
        words += [f"{by_name['training-request']}, {by_name['training-share']} of training and serving"]
    if "training-equal" in by_name:
        words += [f"half of both at {by_name['training-equal']}, 5 % at {by_name['training-small']}"]
    return words


def _unwrapped(figure: Figure) -> Figure:
    """The figure that this one is, where its own arithmetic is "{0}" or a division by 1."""
    first = figure.inputs[0] if figure.inputs else None
    by_one = figure.formula == "{0} / {1}" and figure.inputs[1].value == 1
    return _unwrapped(first) if isinstance(first, Figure) and (figure.formula == "{0}" or by_one) else figure


def prices(figures: Sequence[Figure]) -> Row:
    """Prices that somebody quoted, with when and who: short on a first screen, and then whole."""
    return row("prices", _sources(figures, 200), short=_sources(figures, 40))


def _sources(figures: Sequence[Figure], most: int) -> list[str]:
    found: dict[str, None] = {}
    for figure in figures:
        if figure.origin == "quoted" and figure.source != "asked":
            found[f"{figure.name} {shown(figure)} ({clean(figure.source, most)})"] = None
        found |= dict.fromkeys(_sources([each for each in figure.inputs if isinstance(each, Figure)], most))
    return list(found)
