"""The columns of a table with one line a point: a head with its unit below, and value and interval in each display."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rich.text import Text

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.gate import gate_word
from twinlens.reporting.load_kind import SERVED, LoadKind, kind_of, place_of
from twinlens.reporting.screen.figures import why_bare
from twinlens.reporting.text.column import Column
from twinlens.reporting.text.footnote import Footnotes
from twinlens.reporting.text.serving_column import PLACE_HEADS
from twinlens.reporting.text.serving_table import share_bounds
from twinlens.reporting.view import point_names
from twinlens.spec.precision import Lens
from twinlens.stats.finding.checks import is_impossible
from twinlens.stats.summary.group import Group
from twinlens.units import digits, scale


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
    found = [PointColumn("point", tuple(_styled(one, name) for one, name in _names(groups, served)), side="left")]
    if served:
        head = PLACE_HEADS[load].replace(" ", "\n")
        found.append(PointColumn(head, tuple(_styled(one, f"{place_of(one):.4g}") for one in groups)))
    found += [_figures(column, groups, notes, _RANK.get(column.head, 0)) for column in figures]
    if lens == "inference" and not served and any(gate_word(one) != "not measured" for one in groups):
        found.append(PointColumn("gate", tuple(_styled(one, _GATE.get(w := gate_word(one), w)) for one in groups), 4))
    if any(one.retaken for one in groups) or len({len(one.runs) for one in groups}) > 1:
        found.append(PointColumn("runs", tuple(_styled(one, _runs(one)) for one in groups), 10))
    if len({_days(one) for one in groups}) > 1:
        found.append(PointColumn("day", tuple(_styled(one, _days(one)) for one in groups), 8))
    return found


def has_value(column: Column, groups: Sequence[Group]) -> bool:
    """Whether any point has a figure in this column."""
    return any((pair := column.estimate(one)) is not None and pair[1].value is not None for one in groups)


_GATE = {"reference": "ref", "not measured": display.ABSENT}
_RANK = {"of peak": 11, "memory": 9, "TPOT p99": 7, "TPOT p50": 6, "energy": 5, "loss": 3, "MBU": 3, "MFU": 2}
"""The columns that are left out first: the higher, the sooner."""


def _names(groups: Sequence[Group], served: bool) -> list[tuple[Group, str]]:
    names = [kind_of(one) for one in groups] if served else list(point_names(groups))
    marks = ["✓" if one.ranked else "✗" for one in groups]
    return [(one, f"{mark} {name}") for one, mark, name in zip(groups, marks, names, strict=True)]


def _figures(column: Column, groups: Sequence[Group], notes: Footnotes, rank: int) -> PointColumn:
    found = [column.estimate(one) for one in groups]
    known = [pair[1] for pair in found if pair is not None and pair[1].value is not None]
    divisor, unit = scale(known[0].unit, median(abs(one.value or 0.0) for one in known))
    cells = []
    for one, pair in zip(groups, found, strict=True):
        if pair is None or pair[1].value is None:
            why = column.reason(one, counted=False)
            cells.append(_styled(one, f"{display.ABSENT} {notes.mark(f'{column.label}: not measured: {why}')}"))
            continue
        beside = _beside(*pair, notes)
        shown = digits((pair[1].value or 0.0) / divisor)
        cells.append(_styled(one, f"{shown} {beside}".rstrip()))
    below = "" if column.bare and not column.head.endswith("/s") else unit
    head = column.head.removesuffix(" /s")
    return PointColumn(f"{head}\n{'' if below in head else below}", tuple(cells), rank)


def _beside(metric: str, one: Estimate, notes: Footnotes) -> str:
    """The interval in as few letters as it takes, or the mark of why there is none."""
    over = (
        f" {notes.mark('above 100%: its ceiling was measured lower than this run went')}"
        if is_impossible(metric, one)
        else ""
    )
    if metric == "slo_attainment":
        return share_bounds(one) + over
    if one.low is not None and one.high is not None:
        return display.under(one) + over
    return ("" if one.unit == "bytes" else notes.mark(why_bare(one))) + over


def _runs(one: Group) -> str:
    """ "3", or "3 + 1 again" where one was disturbed and taken again."""
    again = len(one.retaken)
    return f"{len(one.runs)}{f' + {again} again' if again else ''}"


def _days(one: Group) -> str:
    """The day of its first run, as month and day; runs of several days have a + after it."""
    days = sorted({display.clean(run.run[:10], 10) for run in one.runs})
    return f"{days[0][5:]}{'+' if len(days) > 1 else ''}"


def _styled(one: Group, text: str) -> Text:
    return Text(text, style="" if one.ranked else "dim")
