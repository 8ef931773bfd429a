"""The points of one or more studies on one screen: a line a point, then what keeps them from being ranked, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.record.search import SearchRecord
from twinlens.reporting.display import clean, join_names, legend
from twinlens.reporting.load_kind import SERVED, TITLES, LoadKind, fault_of, load_of
from twinlens.reporting.machine import where
from twinlens.reporting.paired import Paired
from twinlens.reporting.paired import said as ratio_words
from twinlens.reporting.screen.figures import stacked
from twinlens.reporting.screen.fitted import Fitted, Rows, shortest
from twinlens.reporting.screen.point_column import PointColumn, point_columns
from twinlens.reporting.text.column import columns
from twinlens.reporting.text.first_lines import finding_lines, said_of, verdict_words
from twinlens.reporting.text.footnote import Footnotes, hanging
from twinlens.reporting.text.search_table import interval
from twinlens.reporting.text.search_table import where as where_searched
from twinlens.reporting.text.serving_column import served_columns
from twinlens.reporting.view import LENSES, in_order, point_names, runs_word, why_not_ranked
from twinlens.spec.precision import Lens
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Group

Part = tuple[Lens, LoadKind, tuple[Group, ...]]


def points_screen(
    groups: Sequence[Group], turns: Sequence[Paired] = (), searches: Sequence[SearchRecord] = ()
) -> RenderableType:
    """At most 24 lines at 80 columns for one table of up to eight points; longer on a narrower terminal."""
    return Fitted(lambda width: shortest(_choices(groups, turns, searches, width), width))


def _choices(
    groups: Sequence[Group], turns: Sequence[Paired], searches: Sequence[SearchRecord], width: int
) -> Iterator[RenderableType]:
    notes = Footnotes()
    parts = _parts(groups)
    tables = [_table(part, notes, width) for part in parts]
    for findings, air, marks in ((5, 1, 1), (3, 1, 1), (3, 0, 1), (2, 0, 0), (1, 0, 0)):
        yield Stack(
            hanging("", verdict_words(groups, turns), "bold" if all(one.ranked for one in groups) else "yellow"),
            *(line for table in tables for line in (*[Text("")] * air, *table)),
            *[Text("")] * air,
            *(hanging("", f"{one}.", "bold") for one in (*_ratios(turns), *_searched(searches))),
            *_why(parts, findings),
            *_findings(groups, findings),
            *(notes.listed() if marks else notes.folded()),
            *_legend(parts),
            hanging("more   ", "show --all: every metric and its method; twinlens report: charts", "dim"),
        )


def _parts(groups: Sequence[Group]) -> list[Part]:
    """What may stand in one table: one lens, one model, one machine, one kind of load."""
    found: dict[tuple[Lens, str, str, LoadKind], list[Group]] = {}
    for lens in LENSES:
        for one in in_order([one for one in groups if one.lens == lens]):
            found.setdefault((lens, one.model, one.tag, load_of(one)), []).append(one)
    return [(lens, load, tuple(mine)) for (lens, _, _, load), mine in found.items()]


def _table(part: Part, notes: Footnotes, width: int) -> list[RenderableType]:
    lens, load, groups = part
    wanted = point_columns(load, lens, groups, notes)
    title = hanging("", _title(lens, load, groups), "bold")
    while (rows := _rows(wanted)).width > width:
        worst = max(wanted, key=lambda one: one.dropped)
        if not worst.dropped:
            return [title, stacked(rows)]
        wanted = [one for one in wanted if one is not worst]
    return [title, rows.table()]


def _rows(shown: Sequence[PointColumn]) -> Rows:
    heads, sides = tuple(one.head for one in shown), tuple(one.side for one in shown)
    return Rows(heads, sides, tuple(zip(*(one.cells for one in shown), strict=True)))


def _title(lens: Lens, load: LoadKind, groups: Sequence[Group]) -> str:
    """ "Training · demo-34m · torch 2.13.0 · AMD EPYC, 2 processors · 3 runs each · 2026-11-20"."""
    first = groups[0]
    what = TITLES[load] if load in SERVED else ""
    machine = first.machine
    place = where(first).removeprefix(" · ") or (clean(machine.name, 60) if machine else "")
    software = clean(machine.software, 40) if machine and not machine.is_attached else ""
    counts = {len(one.runs) for one in groups}
    runs = f"{runs_word(max(counts))} each" if len(counts) == 1 else ""
    days = sorted({clean(run.run[:10], 10) for one in groups for run in one.runs})
    words = (lens.capitalize(), clean(first.model, 60), what, software, place, runs, _days(days))
    return " · ".join(word for word in words if word)


def _days(days: Sequence[str]) -> str:
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}" if days else ""


def _ratios(turns: Sequence[Paired]) -> list[str]:
    """ "bf16 / fp32: 1.52× (1.44–1.59×) the tokens/s, ranked (3 repeats, 83 rounds)"."""
    return [
        f"{clean(one.found.above, 60)} / {clean(one.found.below, 60)}: {ratio_words(one)} the "
        f"{METRICS[one.found.metric].label if one.found.metric in METRICS else clean(one.found.metric, 30)}, "
        f"{'ranked' if one.ranked else f'not ranked: {one.fault}'} "
        f"({one.found.repeats} repeats, {one.found.blocks} rounds)"
        for one in turns
    ]


def _searched(searches: Sequence[SearchRecord]) -> list[str]:
    return [
        f"{f'{name}: ' if (name := where_searched(found)) else ''}the highest within the SLO is "
        f"{interval(found, record.search.unit)} ({found.outcome})"
        for record in searches
        for found in record.found
    ]


def _why(parts: Sequence[Part], most: int) -> list[RenderableType]:
    """Why points are not ranked, those of one table with the same label in one line."""
    alike: dict[tuple[int, str], list[tuple[str, str]]] = {}
    for number, (_, _, groups) in enumerate(parts):
        for one, name in zip(groups, point_names(groups), strict=True):
            if (reason := why_not_ranked(one)) is not None:
                label = f"{groups[0].model}: " if len(parts) > 1 else ""
                alike.setdefault((number, fault_of(one)), []).append((f"{label}{name}", reason))
    found = [f"{join_names([name for name, _ in points], 4)}: not ranked: {points[0][1]}" for points in alike.values()]
    lines: list[RenderableType] = [hanging("✗ ", one, "yellow") for one in found[:most]]
    more = len(found) - most
    return [*lines, *([Text(f"… {more} more points are not ranked: --all", style="dim")] if more > 0 else [])]


def _findings(groups: Sequence[Group], most: int) -> list[RenderableType]:
    lines = finding_lines(groups)
    shown: list[RenderableType] = [
        hanging("✗ " if one.severity == "disqualifies" else "! ", said_of(one), "yellow") for one in lines[:most]
    ]
    more = len(lines) - most
    return [*shown, *([Text(f"… {more} more findings: --all", style="dim")] if more > 0 else [])]


def _legend(parts: Sequence[Part]) -> list[RenderableType]:
    shown = [
        pair[1]
        for lens, load, groups in parts
        for column in (served_columns(groups) if load in SERVED else columns(lens, groups))
        for one in groups
        if (pair := column.estimate(one))
    ]
    said = " ".join(legend(shown))
    return [hanging("", said, "dim")] if said else []
