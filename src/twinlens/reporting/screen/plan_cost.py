"""Cost of a plan on one screen: an hour, a request, a million tokens and a month, hardware and energy apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.planning.cost.answer import Cost
from twinlens.planning.cost.volume import Month
from twinlens.planning.figure import Figure
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.text.fitted import Fitted, FittedTable
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.money import NAMES, money_words
from twinlens.reporting.wording.plan import figure_words
from twinlens.reporting.wording.plan_cost import cost_words, shown
from twinlens.units import digits

_ABSENT = "–"


def cost_screen(answer: Cost, notes: Sequence[Finding] = (), *, why: bool = False) -> RenderableType:
    """A screen of 80 columns. `why`: every figure with its formula."""
    return Fitted(lambda width: Stack(*_lines(answer, notes, why)))


def _lines(answer: Cost, notes: Sequence[Finding], why: bool) -> Iterator[RenderableType]:
    yield hanging("", " ".join(cost_words(answer)), "bold")
    yield _table(answer)
    if answer.month is not None:
        yield from _month(answer.month)
    yield from row("training  ", _training(answer.training))
    yield from row("carbon    ", [shown(each) for each in answer.carbon if each.value is not None])
    if answer.each.listed is not None:
        without = f"{shown(answer.each.total)}, and {shown(answer.each.listed)} without retries and cache hits"
        yield from row("hidden    ", [without])
    told = (*answer.hour(), *answer.figures()) if why else (*answer.hour(), answer.each.total)
    known = [each for each in told if why or each.value is not None]
    for place, each in enumerate(known):
        mark = "computed  " if place == 0 else "          "
        yield hanging(mark, f"{NAMES.get(each.name, each.name)}: {figure_words(_unwrapped(each))}", "")
    lacking = {clause_of(each.reason) for each in answer.figures() if each.reason is not None}
    yield from row("not said  ", sorted(lacking))
    yield from row("assumed   ", [clause_of(each) for each in (*notes, *answer.assumptions())])
    yield from row("prices    ", sources(answer.figures(), 200 if why else 40))


def _table(answer: Cost) -> RenderableType:
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
    cells = tuple((Text(name), *(Text(_money(one)) for one in figures)) for name, *figures in rows)
    return FittedTable(("", "total", "hardware", "energy"), ("left", "right", "right", "right"), cells).table()


def _money(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return _ABSENT if figure.value is None else money_words(float(figure.value), figure.unit.partition("/")[0])


def _month(month: Month) -> Iterator[RenderableType]:
    twice, half = shown(month.doubled), shown(month.half_cent)
    yield from row("doubling  ", [f"twice the users {twice}", f"half a cent a request {half}"])
    yield from row("margin    ", [_margin(each) for each in month.margins])


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


def row(mark: str, clauses: Sequence[str]) -> Iterator[RenderableType]:
    """Clauses after a mark; nothing where there are none."""
    if clauses:
        yield hanging(mark, "; ".join(clauses), "")


def sources(figures: Sequence[Figure], most: int = 90) -> list[str]:
    """Prices that somebody quoted, each once, with when and who in at most some letters."""
    found: dict[str, None] = {}
    for figure in figures:
        if figure.origin == "quoted" and figure.source != "asked":
            found[f"{figure.name} {shown(figure)} ({clean(figure.source, most)})"] = None
        found |= dict.fromkeys(sources([each for each in figure.inputs if isinstance(each, Figure)], most))
    return list(found)
