"""Values for the templates of served runs: one part a model, validity first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from altair.utils import schemapi

from twinlens.comparison.lenses import switch_rows
from twinlens.comparison.side import Side, rates_of
from twinlens.record.beside import SearchRecord
from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.chart.figure import Figure
from twinlens.reporting.chart.latency import latency_charts
from twinlens.reporting.chart.pareto import goodput_chart, pareto_chart
from twinlens.reporting.chart.search import search_chart
from twinlens.reporting.chart.serving_time import serving_timeline
from twinlens.reporting.chart.tail import tail_chart
from twinlens.reporting.document.block import Line
from twinlens.reporting.document.html import Part, parts
from twinlens.reporting.gate import gate_reason, gate_word
from twinlens.reporting.html.page import Cell, details_of, intervals
from twinlens.reporting.html.validity import Checks, GuardRow, calibration, checks_of, guards
from twinlens.reporting.load_kind import SERVED, TITLES, LoadKind, load_of, place_of
from twinlens.reporting.machine import machine_words
from twinlens.reporting.run.grid import TablePart, figures_table, share_ends
from twinlens.reporting.search import outcome_words, search_interval
from twinlens.reporting.search import swept_point as where_of
from twinlens.reporting.tables import SWITCH_LEGEND, switch_heads, switch_lines, switch_remarks
from twinlens.reporting.text.column import GATE, PLACE_HEADS, Column, absences, measured, served_columns
from twinlens.reporting.text.policies import HOLD_COLUMNS, WHY, choices, has_policies
from twinlens.reporting.view import Entry, LensView
from twinlens.reporting.wording.finding import clause_of, label_words
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Group


@dataclass(frozen=True, slots=True)
class ServedRow:
    """One operating point of a table."""

    entry: Entry
    place: str
    cells: tuple[Cell, ...]
    verdict: str


@dataclass(frozen=True, slots=True)
class ServedTable:
    """The points of one load: never two loads in one table."""

    title: str
    head: str
    columns: tuple[Column, ...]
    rows: tuple[ServedRow, ...]
    intervals: str
    absent: str
    held: tuple[Part, ...] = ()
    """Requests that each policy kept back and why, and which policy to take."""
    choices: tuple[str, ...] = ()
    """Which executor or switch to take; of policies they stand in `held`."""


@dataclass(frozen=True, slots=True)
class SearchPart:
    """One search: its answer, its chart, and its runs as (number, value, verdict, why)."""

    name: str
    answer: str
    outcome: str
    unit: str
    rows: tuple[tuple[int, str, str, str], ...]
    figure: Figure | None


@dataclass(frozen=True, slots=True)
class ServedPart:
    """One model served on one machine: what stands against its numbers, its tables, searches, charts and metrics."""

    model: str
    where: str
    checks: Checks
    calibration: str
    guards: tuple[GuardRow, ...]
    tables: tuple[ServedTable, ...]
    searches: tuple[SearchPart, ...]
    figures: tuple[Figure, ...]
    timelines: tuple[Figure, ...]
    details: tuple[Part, ...]
    switches: Mapping[str, object] | None = None


def served_parts(lens: LensView, searches: tuple[SearchRecord, ...], *, checked: bool = False) -> list[ServedPart]:
    """The parts of a lens's served entries, in the view's order of models; none where nothing was served.

    Altair's own checks against its schema (`checked`) are a matter for tests.
    """
    served = lens.under(*SERVED)
    with schemapi.debug_mode(checked):
        return [_part(served, entries, f"served{index}", searches) for index, entries in enumerate(served.parts)]


def _part(lens: LensView, entries: tuple[Entry, ...], mark: str, searches: tuple[SearchRecord, ...]) -> ServedPart:
    loads = [load for load in SERVED if any(load_of(entry.group) == load for entry in entries)]
    drawn: list[Figure | None] = [chart for load in loads for chart in latency_charts(entries, load, mark)]
    drawn += [goodput_chart(entries, f"{mark}-goodput")]
    drawn += [pareto_chart(entries, load, f"{mark}-{load}-pareto") for load in loads]
    open_loop = lens.under("rate", "other").entries
    precisions = dict.fromkeys(entry.kind for entry in open_loop if entry in entries)
    mine = tuple(entry for entry in entries if load_of(entry.group) in ("rate", "other"))
    drawn += [tail_chart(mine, name, f"{mark}-tail{place}") for place, name in enumerate(precisions)]
    times = [serving_timeline(entry, f"{mark}-time{place}") for place, entry in enumerate(entries)]
    folders = {run.folder.resolve().parent for entry in entries for run, _ in entry.material}
    return ServedPart(
        display.clean(entries[0].group.model, 60),
        machine_words(entries[0].group),
        checks_of(entries),
        calibration(entries),
        guards(entries),
        tuple(_table(entries, load) for load in loads),
        tuple(
            _search(record, place, f"{mark}-search{number}-{place}")
            for number, record in enumerate(searches)
            if record.folder.resolve() in folders
            for place in range(len(record.results))
        ),
        tuple(chart for chart in drawn if chart is not None),
        tuple(chart for chart in times if chart is not None),
        details_of(entries),
        _switches(entries),
    )


def _switches(entries: tuple[Entry, ...]) -> Mapping[str, object] | None:
    """Each switch against the default; None where the points differ in none."""
    chosen = [Side(entry.name, entry.group, tuple(run for run, _ in entry.material)) for entry in entries]
    if all(side.group.switches is None for side in chosen):
        return None
    rows = switch_rows(chosen, rates_of(chosen))
    if not rows:
        return None
    return {
        "head": "Each switch against the default", "legend": SWITCH_LEGEND, "heads": switch_heads(),
        "rows": switch_lines(rows), "about": (), "findings": switch_remarks(rows), "against": (),
        "align": "num",
    }  # fmt: skip


def _table(entries: tuple[Entry, ...], load: LoadKind) -> ServedTable:
    here = [entry for entry in entries if load_of(entry.group) == load]
    groups = [entry.group for entry in here]
    wanted = served_columns(groups)
    shown = measured(wanted, groups)
    rows = tuple(_row(entry, shown) for entry in here)
    held = _held(load, here)
    chosen = () if held else choices(groups, _runs(here))
    return ServedTable(
        TITLES[load], PLACE_HEADS[load], shown, rows, intervals(groups, shown), absences(wanted, groups), held, chosen
    )


def _held(load: LoadKind, entries: Sequence[Entry]) -> tuple[Part, ...]:
    groups = tuple(entry.group for entry in entries)
    if not has_policies(groups):
        return ()
    table = figures_table(TablePart(groups[0].lens, load, groups), HOLD_COLUMNS, WHY)
    return tuple(parts([*map(Line, choices(groups, _runs(entries))), table]))


def _runs(entries: Sequence[Entry]) -> dict[str, Run]:
    return {run.id: run for entry in entries for run, _ in entry.material}


def _row(entry: Entry, shown: tuple[Column, ...]) -> ServedRow:
    place = place_of(entry.group)
    return ServedRow(
        entry, f"{place:.4g}", tuple(_cell(column, entry.group) for column in shown), label_words(entry.group.label)
    )


def _cell(column: Column, group: Group) -> Cell:
    pair = column.estimate(group)
    if pair is None or pair[1].value is None:
        return Cell("not measured", why=column.reason(group))
    estimate = pair[1]
    if column is GATE:
        return Cell(gate_word(group), f"{METRICS[pair[0]].label} {display.value(estimate)}", gate_reason(group))
    is_share = pair[0] == "slo_attainment"
    under = share_ends(estimate) if is_share else display.own_bounds(estimate)
    under += {"range": " (range)", "run": " (run)"}.get(display.kind(estimate), "") if under else ""
    why = "" if under else f"no interval: {display.no_interval(estimate)}"
    return Cell(column.text(group), under or "no interval", why)


def _search(record: SearchRecord, place: int, anchor: str) -> SearchPart:
    result = record.results[place]
    return SearchPart(
        where_of(result),
        search_interval(result, record.search.unit),
        outcome_words(result),
        record.search.unit,
        tuple(
            (number, f"{trial.value:g}", trial.verdict, clause_of(trial.why))
            for number, trial in enumerate(result.tried, start=1)
        ),
        search_chart(record, result, anchor),
    )
