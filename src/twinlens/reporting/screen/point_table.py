"""One table a lens, model, machine and kind of load; what all tables share is said once, above them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import RenderableType
from rich.text import Text

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.display import clean
from twinlens.reporting.gate import agreement_of, gate_word
from twinlens.reporting.load_kind import SERVED, TITLES, LoadKind, kind_of, load_of, place_of
from twinlens.reporting.machine import place_named
from twinlens.reporting.point_name import point_names
from twinlens.reporting.screen.figures import stacked, why_bare
from twinlens.reporting.text.column import Column, columns
from twinlens.reporting.text.fitted import FittedTable
from twinlens.reporting.text.footnote import Footnotes, hanging
from twinlens.reporting.text.serving_column import GATE, PLACE_HEADS, served_columns
from twinlens.reporting.text.serving_table import share_bounds
from twinlens.reporting.view import LENSES, in_order, runs_word
from twinlens.spec.precision import Lens
from twinlens.stats.metrics.definition import is_impossible
from twinlens.stats.summary.group import Group
from twinlens.units import digits, scale


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
    place = place_named(first) or (clean(machine.name, 60) if machine else "")
    stacks = {group.machine.software for group in part.groups if group.machine and not group.machine.is_attached}
    software = clean(stacks.pop(), 60) if len(stacks) == 1 else ""  # of several, each point's name has its executor
    counts = {len(group.runs) for group in part.groups}
    runs = f"{runs_word(max(counts))} each" if len(counts) == 1 else ""
    days = sorted({clean(run.run[:10], 10) for group in part.groups for run in group.runs})
    return [word for word in (software, place, runs, " to ".join(dict.fromkeys((days[0], days[-1])))) if word]


# The columns of a table with one line a point: a head with its unit below, and value and interval in each display.


@dataclass(frozen=True, slots=True)
class PointColumn:
    """A head of two lines, a cell for each point, and how soon it is left out of a narrow table (0: never)."""

    head: str
    cells: tuple[Text, ...]
    dropped: int = 0
    side: str = "right"


def point_columns(
    load: LoadKind, lens: Lens, groups: Sequence[Group], figures: Sequence[Column], notes: Footnotes
) -> list[PointColumn]:
    """Names, places, figures, gate, how many runs and of which day, from left to right."""
    served = load in SERVED
    wanted = [PointColumn("point", tuple(_styled(group, name) for group, name in _names(groups, served)), side="left")]
    if served:
        head = PLACE_HEADS[load].replace(" ", "\n")
        wanted.append(PointColumn(head, tuple(_styled(group, f"{place_of(group):.4g}") for group in groups)))
    wanted += [_figures(column, groups, notes, _RANK.get(column.head, 0)) for column in figures]
    if lens == "inference" and any(
        bool(agreement_of(group)) if served else gate_word(group) != "not measured" for group in groups
    ):
        wanted.append(
            PointColumn("quality", tuple(_styled(group, _GATE.get(w := gate_word(group), w)) for group in groups), 4)
        )
    if any(group.retaken for group in groups) or len({len(group.runs) for group in groups}) > 1:
        wanted.append(PointColumn("runs", tuple(_styled(group, _runs(group)) for group in groups), 10))
    if len({_days(group) for group in groups}) > 1:
        wanted.append(PointColumn("day", tuple(_styled(group, _days(group)) for group in groups), 8))
    return wanted


def has_value(column: Column, groups: Sequence[Group]) -> bool:
    """Whether any point has a figure in this column."""
    return any((pair := column.estimate(group)) is not None and pair[1].value is not None for group in groups)


_GATE = {"reference": "ref", "not measured": display.ABSENT}
_RANK = {"of peak": 11, "memory": 9, "TPOT p99": 7, "TPOT p50": 6, "energy": 5, "loss": 3, "MBU": 3, "MFU": 2,
         "exchanges/s": 4, "algbw": 3}  # fmt: skip
"""The columns that are left out first: the higher, the sooner."""


def _names(groups: Sequence[Group], served: bool) -> list[tuple[Group, str]]:
    names = [kind_of(group) for group in groups] if served else list(point_names(groups))
    marks = [display.MARKS[group.validity] for group in groups]
    return [(group, f"{mark} {name}") for group, mark, name in zip(groups, marks, names, strict=True)]


def _figures(column: Column, groups: Sequence[Group], notes: Footnotes, rank: int) -> PointColumn:
    pairs = [column.estimate(group) for group in groups]
    known = [pair[1] for pair in pairs if pair is not None and pair[1].value is not None]
    divisor, unit = scale(known[0].unit, median(abs(group.value or 0.0) for group in known))
    cells = []
    for group, pair in zip(groups, pairs, strict=True):
        if pair is None or pair[1].value is None:
            why = column.reason(group, counted=False)
            cells.append(_styled(group, f"{display.ABSENT} {notes.mark(f'{column.label}: not measured: {why}')}"))
            continue
        beside = _beside(*pair, notes)
        shown = digits((pair[1].value or 0.0) / divisor)
        cells.append(_styled(group, f"{shown} {beside}".rstrip()))
    below = "" if column.bare and not column.head.endswith("/s") else unit
    head = column.head.removesuffix(" /s")
    return PointColumn(f"{head}\n{'' if below in head else below}", tuple(cells), rank)


def _beside(metric: str, estimate: Estimate, notes: Footnotes) -> str:
    """The interval in as few letters as it takes, or the mark of why there is none."""
    over = (
        f" {notes.mark('above 100%: its ceiling was measured lower than this run went')}"
        if is_impossible(metric, estimate)
        else ""
    )
    if metric == "slo_attainment":
        return share_bounds(estimate) + over
    if estimate.low is not None and estimate.high is not None:
        return display.under(estimate) + over
    return ("" if estimate.unit == "bytes" else notes.mark(why_bare(estimate))) + over


def _runs(group: Group) -> str:
    """ "3", or "3 + 1 again" where one was disturbed and taken again."""
    again = len(group.retaken)
    return f"{len(group.runs)}{f' + {again} again' if again else ''}"


def _days(group: Group) -> str:
    """The day of its first run, as month and day; runs of several days have a + after it."""
    days = sorted({display.clean(run.run[:10], 10) for run in group.runs})
    return f"{days[0][5:]}{'+' if len(days) > 1 else ''}"


def _styled(group: Group, text: str) -> Text:
    return Text(text, style="" if group.ranked else "dim")
