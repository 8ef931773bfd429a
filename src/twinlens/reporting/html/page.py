"""Values for the templates of the page: rows of text, nothing left to compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from twinlens.record.finding import Validity
from twinlens.reporting import display
from twinlens.reporting.chart.all import Charts
from twinlens.reporting.document.block import Section
from twinlens.reporting.document.html import Part, parts
from twinlens.reporting.gate import Word, agreement_words, gate_reason, gate_word, why_no_gate
from twinlens.reporting.machine import machine_words
from twinlens.reporting.paired import Paired
from twinlens.reporting.point_name import precision_of
from twinlens.reporting.run.grid import metric_blocks
from twinlens.reporting.run.subject import subject
from twinlens.reporting.text.column import Column, absences, columns, measured
from twinlens.reporting.text.sentence import against, reference_of
from twinlens.reporting.view import Entry, LensView, View, runs_word, why_not_valid
from twinlens.reporting.wording.finding import clause_of, label_words, sentence_of
from twinlens.reporting.wording.training import IMPOSSIBLE
from twinlens.spec.point import FROM_LOG
from twinlens.stats.metrics.definition import METRICS, is_impossible
from twinlens.stats.summary.group import Group, Summary

_MOST_SUBJECTS = 6


@dataclass(frozen=True, slots=True)
class Cell:
    """A number with what stands under it. `why` is the reason of an absent one."""

    text: str
    under: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One operating point of a table."""

    entry: Entry
    cells: tuple[Cell, ...]
    factor: Cell
    fidelity: Word
    fidelity_under: str
    fidelity_why: str
    why_not: str | None
    runs: str
    standing: str
    validity: Validity


@dataclass(frozen=True, slots=True)
class LensPart:
    """One model under one lens: its table, its charts and all its metrics."""

    lens: str
    model: str
    where: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    reference: str
    intervals: str
    absent: str
    charts: Charts
    details: tuple[Part, ...]


def part(lens: LensView, entries: Sequence[Entry], charts: Charts, turns: Sequence[Paired] = ()) -> LensPart:
    """Fill the part of one model on one machine. Rows that are not valid last, in the view's order. `turns`: ratios of
    points that took turns, which are their factors."""
    groups = [entry.group for entry in entries]
    wanted = columns(lens.lens, groups)
    shown = measured(wanted, groups)
    ordered = sorted(entries, key=lambda entry: not entry.group.ranked)
    reference = next((precision_of(group) for group in groups if precision_of(group) == "fp32"), "the first row")
    return LensPart(
        lens.lens,
        display.clean(groups[0].model, 60),
        machine_words(groups[0]),
        shown,
        tuple(_row(entry, shown, groups, turns) for entry in ordered),
        reference,
        intervals(groups, shown),
        absences(wanted, groups),
        charts,
        details_of(entries),
    )


def metric_ids(view: View, heads: Iterable[str]) -> tuple[str, ...]:
    """Every known metric that the page shows, of a point or as a head, in the order of the definitions."""
    shown = {id for lens in view.lenses for group in lens.groups for id in group.metrics} | set(heads)
    return tuple(id for id in METRICS if id in shown)


def intervals(groups: Sequence[Group], shown: Sequence[Column]) -> str:
    """The kind of interval under the numbers of a table: intervals over runs or within one, or ranges of two."""
    pairs = [pair[1] for column in shown for group in groups if (pair := column.estimate(group)) is not None]
    kinds = {display.kind(estimate) for estimate in pairs} - {""}
    if kinds == {"range"}:
        return "Under each number stands the range of its two runs: no confidence is claimed."
    if kinds == {"run"}:
        return "Under each number stands its 95% interval within the one run, which says nothing of other runs."
    marked = "; (run) marks one within a single run, (range) that of two runs" if kinds & {"run", "range"} else ""
    return f"Under each number stands its 95% interval over runs, where there is one{marked}."


def _row(entry: Entry, shown: tuple[Column, ...], groups: list[Group], turns: Sequence[Paired]) -> TableRow:
    group = entry.group
    word = gate_word(group)
    return TableRow(
        entry,
        tuple(_cell(column, group) for column in shown),
        _factor(group, groups, turns),
        word,
        agreement_words(group),
        why_no_gate(group) if word == "not measured" else gate_reason(group),
        why_not_valid(group),
        runs_word(len(group.runs)),
        label_words(group.label),
        group.validity,
    )


def _cell(column: Column, group: Group) -> Cell:
    pair = column.estimate(group)
    if pair is None or pair[1].value is None:
        return Cell("not measured", why=column.reason(group))
    estimate = pair[1]
    if is_impossible(*pair):
        return Cell(column.text(group), "above 100%: no efficiency", f"{column.head}: {IMPOSSIBLE}")
    if estimate.low is None:
        return Cell(column.text(group), why=f"no interval: {display.no_interval(estimate)}")
    if estimate.low == estimate.high:
        return Cell(column.text(group), "same in all runs")
    kind = {"range": " (range)", "run": " (run)"}.get(display.kind(estimate), "")
    # The first column is what people quote, so it carries its interval in its own unit too.
    under = display.bare_bounds(estimate) if column.bare else display.spread(estimate)
    return Cell(column.text(group), f"{under}{kind}")


def _factor(group: Group, groups: list[Group], turns: Sequence[Paired]) -> Cell:
    """The ratio to the reference: that of paired slices where the two took turns, else of their rates."""
    headlines = [pair for pair in turns if pair.is_headline and pair.ranked]
    if pair := next((pair for pair in headlines if pair.group is group), None):
        known = pair.result.ratio
        return Cell(display.factor(known), f"{display.factor_bounds(known)}, paired", display.method(known))
    if any(pair.reference is group for pair in headlines):
        return Cell("1", "reference")
    reference = reference_of(group, groups)
    if reference is None:
        return Cell("1", "reference") if group.ranked else Cell(display.ABSENT, why="not valid")
    ratio = against(group, reference)
    if ratio is None or ratio.value is None:
        return Cell(display.ABSENT, why="not valid" if ratio is None else display.absence(ratio))
    return Cell(display.factor(ratio), display.factor_bounds(ratio) or "no interval", display.method(ratio))


def details_of(entries: Sequence[Entry]) -> tuple[Part, ...]:
    """Every metric of each point in full, a fold a point."""
    return tuple(parts([_detail(entry.name, entry.group) for entry in entries]))


def _detail(name: str, group: Group) -> Section:
    def lacks(metric: str) -> str:
        """Why the first run that says so has none."""
        known = (run.metrics[metric] for run in group.runs if metric in run.metrics)
        return next((each.lacks for each in known if each.reason), "")

    caption = (
        f"{group.lens.capitalize()} of {display.clean(group.model, 60)}, {name}: every metric with its interval, "
        "number of observations, origin and method."
    )
    return Section(f"All metrics of {name}", metric_blocks(group.metrics, caption, lacks))


def why(summary: Summary) -> str:
    """The reason of the verdict on a run, and what was found in it."""
    told = [
        sentence_of(finding)
        for finding in summary.findings
        if summary.verdict.label != "invalid" or finding.code != "client-limit"
    ]
    return " ".join([f"{clause_of(summary.verdict.reason)}.", *told])


def when(view: View) -> str:
    """From the first start to the last end, UTC."""
    starts = sorted(run.started_utc for run, _ in view.material)
    read = (
        "read "
        if all(run.spec.executor.kind == FROM_LOG and run.place == "recorded" for run, _ in view.material)
        else ""
    )
    ends = sorted(run.ended_utc for run, _ in view.material if run.ended_utc)
    if not ends:
        return f"{read}{_clock(starts[0])}, not ended"
    return f"{read}{_clock(starts[0])} to {_clock(ends[-1])}"


def subjects(view: View) -> tuple[str, ...]:
    """The models and stacks that ran: a line for each model and stack: the first few, and how many more there are."""
    lines = tuple(dict.fromkeys(subject(run, summary, with_precision=False) for run, summary in view.material))
    rest = len(lines) - _MOST_SUBJECTS
    return (*lines[:_MOST_SUBJECTS], f"and {rest} more") if rest > 1 else lines


def what(view: View) -> str:
    """The numbers of runs and points in one line."""
    counts = []
    for lens in view.lenses:
        runs = sum(len(entry.material) for entry in lens.entries)
        points = len(lens.entries)
        counts.append(f"{lens.lens}: {points} operating point{'s' if points > 1 else ''}, {runs_word(runs)}")
    return "; ".join(counts)


def _clock(stamp: str) -> str:
    """ "2026-11-20T141200Z" as "2026-11-20 14:12:00 UTC"; anything else as it is."""
    try:
        return datetime.strptime(stamp, "%Y-%m-%dT%H%M%SZ").strftime("%Y-%m-%d %H:%M:%S UTC")
    except ValueError:
        return display.clean(stamp, 40)
