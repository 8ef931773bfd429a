"""The columns of a table with one line a point: a head with its unit below, and value and interval in each display."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rich.text import Text

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.gate import agreement_of, gate_word
from twinlens.reporting.load_kind import SERVED, LoadKind, kind_of, place_of
from twinlens.reporting.point_name import point_names
from twinlens.reporting.screen.figures import why_bare
from twinlens.reporting.text.column import Column
from twinlens.reporting.text.footnote import Footnotes
from twinlens.reporting.text.serving_column import PLACE_HEADS
from twinlens.reporting.text.serving_table import share_bounds
from twinlens.spec.precision import Lens
from twinlens.stats.metrics.definition import is_impossible
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
    wanted = [PointColumn("point", tuple(_styled(group, name) for group, name in _names(groups, served)), side="left")]
    if served:
        head = PLACE_HEADS[load].replace(" ", "\n")
        wanted.append(PointColumn(head, tuple(_styled(group, f"{place_of(group):.4g}") for group in groups)))
    wanted += [_figures(column, groups, notes, _RANK.get(column.head, 0)) for column in figures]
    if lens == "inference" and any(
        bool(agreement_of(group)) if served else gate_word(group) != "not measured" for group in groups
    ):
        wanted.append(
            PointColumn("gate", tuple(_styled(group, _GATE.get(w := gate_word(group), w)) for group in groups), 4)
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
