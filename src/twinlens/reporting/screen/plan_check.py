"""A check of a plan on one screen: what works together, then memory, power, link, errors, time and speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinlens.planning.check.answer import Check
from twinlens.planning.figure import Figure
from twinlens.record.finding import Finding
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.amount import amount
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.plan import figure_words
from twinlens.reporting.wording.plan_check import (
    VERDICTS,
    axis_words,
    error_words,
    head_words,
    link_words,
    power_words,
    ruling_words,
    speed_words,
    time_words,
)

_STYLES = {"yes": "green", "limited": "yellow", "no": "red", "unknown": "yellow"}
_HEADS = {True: "bold green", False: "bold red", None: "bold yellow"}
_FITS = {True: "yes", False: "no", None: "unknown"}


def check_screen(check: Check, notes: Sequence[Finding] = (), *, why: bool = False) -> RenderableType:
    """A screen of 80 columns. `why`: every figure with its formula, and every row with its source."""
    return Stack(*_lines(check, notes, why))


def _lines(check: Check, notes: Sequence[Finding], why: bool) -> Iterator[RenderableType]:
    yield hanging("", head_words(check), _HEADS[check.passes])
    yield _table(check, why)
    yield hanging("power   ", power_words(check), "")
    yield hanging("link    ", link_words(check), "")
    yield hanging("errors  ", error_words(check, why), "")
    if check.time:
        yield hanging("time    ", time_words(check), "")
    if check.speed:
        yield hanging("speed   ", speed_words(check), "")
    if why:
        for each in check.figures():
            yield hanging("        ", f"{each.name}: {figure_words(each)}", "dim")
    said = [clause_of(each) for each in (*notes, *check.assumptions())]
    if said:
        yield hanging("assumed ", "; ".join(said), "dim")


def _table(check: Check, why: bool) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for folds in (False, False, True):
        table.add_column(no_wrap=not folds, overflow="fold")
    for each in check.rulings:
        words = ruling_words(each, why) + (f" ({each.source}, {each.date})" if why and each.source else "")
        verdict = Text(VERDICTS[each.verdict], style=_STYLES[each.verdict])
        table.add_row(Text(axis_words(each, check.stack)), verdict, Text(words))
    fits = _FITS[check.memory.fits]
    table.add_row(Text("memory of each"), Text(VERDICTS[fits], style=_STYLES[fits]), Text(_room(check)))
    return table


def _room(check: Check) -> str:
    needed, usable = check.memory.needed, check.memory.usable
    close = ", close" if check.memory.fits and check.memory.is_close else ""
    return f"{_gb(needed)} needed of {_gb(usable)} usable{close}"


def _gb(figure: Figure) -> str:
    return "more than is known" if figure.value is None else amount(float(figure.value), "bytes", plain=True)
