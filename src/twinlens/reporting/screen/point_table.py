"""One table a lens, model, machine and kind of load; what all tables share is said once, above them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import RenderableType

from twinlens.record.estimate import Estimate
from twinlens.reporting.display import clean
from twinlens.reporting.load_kind import SERVED, TITLES, LoadKind, load_of
from twinlens.reporting.machine import machine_words
from twinlens.reporting.screen.figures import stacked
from twinlens.reporting.screen.point_column import PointColumn, has_value, point_columns
from twinlens.reporting.text.column import Column, columns
from twinlens.reporting.text.fitted import FittedTable
from twinlens.reporting.text.footnote import Footnotes, hanging
from twinlens.reporting.text.serving_column import GATE, served_columns
from twinlens.reporting.view import LENSES, in_order, runs_word
from twinlens.spec.precision import Lens
from twinlens.stats.summary.group import Group


@dataclass(frozen=True, slots=True)
class TablePart:
    """Points that may stand in one table."""

    lens: Lens
    load: LoadKind
    groups: tuple[Group, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        if self.load not in SERVED:
            return columns(self.lens, self.groups)
        return tuple(column for column in served_columns(self.groups) if column is not GATE)  # it has words of its own


@dataclass(frozen=True, slots=True)
class PointTable:
    """A table for one width. `left_out`: heads of columns that it has no room for; `absent`: what no point has and
    why; `shown`: the estimates in it."""

    lines: tuple[RenderableType, ...]
    left_out: tuple[str, ...]
    absent: tuple[tuple[str, str], ...]
    shown: tuple[Estimate, ...]


def parts_of(groups: Sequence[Group]) -> tuple[TablePart, ...]:
    """Groups by lens, model, machine and kind of load, training first."""
    parts: dict[tuple[Lens, str, str, LoadKind], list[Group]] = {}
    for lens in LENSES:
        for group in in_order([group for group in groups if group.lens == lens]):
            parts.setdefault((lens, group.model, group.tag, load_of(group)), []).append(group)
    return tuple(TablePart(lens, load, tuple(mine)) for (lens, _, _, load), mine in parts.items())


def tables_of(parts: Sequence[TablePart], notes: Footnotes, width: int) -> tuple[str, tuple[PointTable, ...]]:
    """Facts that all parts share, in one line ("" with one part, whose title says it), and a table for each."""
    told = [_circumstances(part) for part in parts]
    shared = [word for word in told[0] if all(word in others for others in told)] if len(parts) > 1 else []
    tables = tuple(
        _table(part, " · ".join([_title(part), *(word for word in words if word not in shared)]), notes, width)
        for part, words in zip(parts, told, strict=True)
    )
    return " · ".join(shared), tables


def whole_table(part: TablePart, notes: Footnotes) -> tuple[str, FittedTable]:
    """The title of a part and its table, as wide as it takes."""
    with_value = [column for column in part.columns if has_value(column, part.groups)]
    title = " · ".join([_title(part), *_circumstances(part)])
    return title, _rows(point_columns(part.load, part.lens, part.groups, with_value, notes))


def _table(part: TablePart, title: str, notes: Footnotes, width: int) -> PointTable:
    with_value = [column for column in part.columns if has_value(column, part.groups)]
    wanted, dropped = point_columns(part.load, part.lens, part.groups, with_value, notes), list[str]()
    rows = _rows(wanted)
    while rows.width > width and any(candidate.dropped for candidate in wanted):
        worst = max(wanted, key=lambda candidate: candidate.dropped)
        wanted = [candidate for candidate in wanted if candidate is not worst]
        dropped.append(worst.head.split("\n")[0])
        rows = _rows(wanted)
    body = rows.table() if rows.width <= width else stacked(rows)
    shown = [pair[1] for column in with_value for candidate in part.groups if (pair := column.estimate(candidate))]
    absent = tuple(
        (column.label, column.reason(part.groups[0], counted=False))
        for column in part.columns
        if column not in with_value
    )
    return PointTable((hanging("", title, "bold"), body), tuple(dropped), absent, tuple(shown))


def _rows(shown: Sequence[PointColumn]) -> FittedTable:
    heads, sides = tuple(column.head for column in shown), tuple(column.side for column in shown)
    return FittedTable(heads, sides, tuple(zip(*(column.cells for column in shown), strict=True)))


def _title(part: TablePart) -> str:
    """ "Inference · small · served at a rate (open loop)"."""
    served = TITLES[part.load] if part.load in SERVED else ""
    return " · ".join(word for word in (part.lens.capitalize(), clean(part.groups[0].model, 60), served) if word)


def _circumstances(part: TablePart) -> list[str]:
    """Software, machine, how many runs, and on which days."""
    first, machine = part.groups[0], part.groups[0].machine
    place = machine_words(first).removeprefix(" · ") or (clean(machine.name, 60) if machine else "")
    stacks = {group.machine.software for group in part.groups if group.machine and not group.machine.is_attached}
    software = clean(stacks.pop(), 60) if len(stacks) == 1 else ""  # of several, each point's name has its executor
    counts = {len(group.runs) for group in part.groups}
    runs = f"{runs_word(max(counts))} each" if len(counts) == 1 else ""
    days = sorted({clean(run.run[:10], 10) for group in part.groups for run in group.runs})
    return [word for word in (software, place, runs, " to ".join(dict.fromkeys((days[0], days[-1])))) if word]
