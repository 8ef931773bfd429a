"""Tables of evidence on one screen: training beside inference, and the share of kernels in a served token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.comparison.lenses import LensRow
from twinlens.comparison.runtime_share import RuntimeShares
from twinlens.comparison.switches import SwitchRow
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.screen.left_out import left_out
from twinlens.reporting.tables import (
    LENS_HEADS,
    LENS_LEGEND,
    LENSES,
    SHARE_HEADS,
    SPLIT,
    STACKED,
    SWITCH_LEGEND,
    change_names,
    lens_cell,
    ran_on,
    share_cells,
    switch_heads,
    switch_lines,
    switch_remarks,
)
from twinlens.reporting.text.fitted import Fitted, FittedTable
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.finding import sentence_of

_MOST, _SHORTEST_NAME = 6, 12


def lenses_screen(rows: Sequence[LensRow], fits: Sequence[tuple[str, Finding]], whole: bool = False) -> RenderableType:
    """A line for each change with its ratio in each lens, then what each point is good for. `fits`: name, finding."""
    names = change_names(rows)
    cells = tuple(
        tuple(map(Text, (display.clean(name, 36), lens_cell(row, "training"), lens_cell(row, "inference"))))
        for name, row in zip(names, rows, strict=True)
    )
    most = len(fits) if whole else _MOST
    return Stack(
        hanging("", LENSES, "bold"),
        hanging("", ran_on(rows), ""),
        FittedTable(LENS_HEADS, ("left", "left", "left"), cells, gap=2).table(),
        hanging("", LENS_LEGEND, "dim"),
        *(hanging(f"{display.clean(name, 30)}: ", sentence_of(each), "") for name, each in fits[:most]),
        *left_out(len(fits) - most, "finding"),
        hanging("more   ", "compare without --table: what each pair differs in; --json: every number", "dim"),
    )


def switches_screen(rows: Sequence[SwitchRow]) -> RenderableType:
    """A line for each switch with its ratios to the default, then what was found on the switches."""
    group = rows[0].comparison.a.group
    return Stack(
        hanging("", f"{display.clean(group.model, 40)} · each switch against the default", "bold"),
        Fitted(lambda width: _switches(rows, width).table()),
        hanging("", SWITCH_LEGEND, "dim"),
        *(hanging("! ", remark, "yellow") for remark in switch_remarks(rows)),
    )


def _switches(rows: Sequence[SwitchRow], width: int) -> FittedTable:
    """Each interval beside its ratio; where that is too wide below it, and the names in as many lines as they need."""
    heads = switch_heads()
    sides = ("left", *["right"] * (len(heads) - 1))
    cells = tuple(tuple(map(Text, line)) for line in switch_lines(rows))
    beside = FittedTable(heads, sides, cells)
    if beside.width <= width:
        return beside
    stacked = switch_lines(rows, STACKED)
    figures = FittedTable(heads[1:], sides[1:], tuple(tuple(map(Text, line[1:])) for line in stacked))
    room = max(_SHORTEST_NAME, width - figures.width - figures.gap)
    names = ("\n".join(wrap(line[0], room)) for line in stacked)
    below = tuple((Text(name), *each) for name, each in zip(names, figures.rows, strict=True))
    return FittedTable(heads, sides, below)


def runtimes_screen(found: Sequence[RuntimeShares]) -> RenderableType:
    """A line for each latency of each served point, with the engine's share of it and the rest."""
    return Stack(*_runtimes(found))


def _runtimes(found: Sequence[RuntimeShares]) -> Iterator[RenderableType]:
    for each in found:
        group = each.served.group
        yield hanging("", f"{display.clean(group.model, 40)} · {display.clean(group.point['precision'], 20)}", "bold")
        yield hanging("engine  ", display.clean(each.engine.name, 60), "")
        yield hanging("served  ", display.clean(each.served.name, 60), "")
        rows = tuple(tuple(map(Text, share_cells(share))) for share in each.shares)
        yield FittedTable(SHARE_HEADS, ("left", *["right"] * 6), rows, gap=2).table()
        yield from (hanging("! ", sentence_of(finding), "yellow") for finding in each.findings)
    yield hanging("", SPLIT, "dim")
