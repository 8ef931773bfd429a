"""Fit of a plan on one screen: the answer, its parts as bars, changes that flip it, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.planning.figure import Figure
from twinlens.planning.fit.answer import Fit
from twinlens.planning.fit.placement import Placement
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.text.fitted import Fitted, FittedTable
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.plan import (
    NAMES,
    figure_words,
    fit_words,
    like_words,
    placed_cells,
    placed_words,
    subject_words,
)
from twinlens.units import digits

_STYLES = {True: "green", False: "red", None: "yellow"}
_MOST_OTHERS = 6
_MOST_ROWS = 15
_TOLD = ("weights", "kv", "optimizer", "adapters", "state")


def fit_screen(answer: Fit, notes: Sequence[Finding] = (), *, why: bool = False) -> RenderableType:
    """A screen of 80 columns. `why`: every figure with its formula."""
    return Fitted(lambda width: Stack(*_lines(answer, notes, width, why)))


def _lines(answer: Fit, notes: Sequence[Finding], width: int, why: bool) -> Iterator[RenderableType]:
    asked = answer.asked
    if asked is None:
        yield hanging("", f"{subject_words(answer.plan)}: the fewest of each device that hold it.", "bold")
        shown = answer.others if why else answer.others[:_MOST_ROWS]
        if shown:
            yield _others(shown)
        if len(answer.others) > len(shown):
            yield Text(f"… and {len(answer.others) - len(shown)} more: --why", style="dim")
    else:
        yield hanging("", fit_words(answer), f"bold {_STYLES[asked.fits]}")
        yield _bars(asked, width)
        yield from _row("like      ", like_words(answer.plan))
        yield from _row("would do  ", [clause_of(each) for each in answer.changes])
        if asked.fits:
            yield from _row("at most   ", [f"{each.value:,} {each.unit}" for each in answer.most])
        yield from _row("fits on   ", [placed_words(each) for each in answer.others[:_MOST_OTHERS]])
        yield from (
            hanging("computed  " if place == 0 else "          ", words, "")
            for place, words in enumerate(_arithmetic(asked, why))
        )
    yield from _row("unknown   ", _unknown(answer))
    if why and answer.legal:
        yield from _row("legal     ", [f"{name} {', '.join(map(str, degrees))}" for name, degrees in answer.legal])
    yield from _row("assumed   ", [clause_of(each) for each in (*notes, *answer.assumptions())])


def _row(mark: str, clauses: Sequence[str]) -> Iterator[RenderableType]:
    if clauses:
        yield hanging(mark, "; ".join(clauses), "")


def _unknown(answer: Fit) -> list[str]:
    """Why figures are absent."""
    if answer.plan.subject.shape is None and answer.asked is None:
        return [f"{clean(answer.plan.subject.name, 60)} has no layers here: name a model, or give its config.json"]
    parts = answer.asked.parts if answer.asked else ()
    return [clause_of(part.reason) for part in parts if part.reason is not None]


def _bars(placed: Placement, width: int) -> RenderableType:
    """The parts on the fullest device, drawn at one scale with what is usable."""
    room = float(placed.usable.value or 0)
    named = [*placed.parts, placed.needed, placed.usable]
    longest = max([room, *(float(each.value or 0) for each in named)]) or 1.0
    wide = max(10, width - 34)
    rows = []
    for each in named:
        value = None if each.value is None else float(each.value)
        bar = "" if value is None else "█" * round(wide * value / longest)
        over = each.name == "needed" and value is not None and value > room
        style = "red" if over else "dim" if each.name in ("usable", "needed") else "cyan"
        shown = "not known" if value is None else f"{digits(value / 1e9, 4)} GB"
        rows.append((Text(NAMES.get(each.name, each.name)), Text(shown), Text(bar, style=style)))
    return FittedTable(("", "", ""), ("left", "right", "left"), tuple(rows)).table()


def _arithmetic(placed: Placement, why: bool) -> Iterator[str]:
    shown = placed.parts if why else [each for each in placed.parts if each.name in _TOLD]
    for each in (*shown, *((placed.needed,) if why else ()), placed.usable):
        yield f"{NAMES.get(each.name, each.name)}: {figure_words(each)}"
        inner = [one for one in each.inputs if isinstance(one, Figure)]
        if each.name != "needed" and (why or each.name == "kv"):
            yield from (f"{NAMES.get(one.name, one.name)}: {figure_words(one)}" for one in inner)


def _others(others: Sequence[Placement]) -> RenderableType:
    rows = tuple(tuple(map(Text, placed_cells(each))) for each in others)
    heads = ("device", "count", "GB needed\neach", "GB usable\neach", "free")
    return FittedTable(heads, ("left", "right", "right", "right", "right"), rows).table()
