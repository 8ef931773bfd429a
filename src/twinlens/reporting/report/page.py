"""Document of a report: the answer, what stands against it, a table for each lens and load, and the rest folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from twinlens.diagnosis.diagnosis import diagnose_repeats
from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.chart.all import charts
from twinlens.reporting.chart.figure import Figure
from twinlens.reporting.comparing.paired import paired_blocks, paired_of
from twinlens.reporting.document.block import Block, Document, Drawing, Line, Section, Table, Terms, Title, whole
from twinlens.reporting.document.html import html
from twinlens.reporting.document.html import write as write_document
from twinlens.reporting.judging.diagnosis import Diagnose, diagnosed_points, points_blocks
from twinlens.reporting.load_kind import SERVED
from twinlens.reporting.paired import Paired, ratios_lead
from twinlens.reporting.report.answer import against_box, panels
from twinlens.reporting.report.executor import executor_blocks, machine_lines, stack
from twinlens.reporting.report.method import definitions, method_blocks
from twinlens.reporting.report.served import served_blocks
from twinlens.reporting.run.grid import TablePart, absent_words, metric_blocks, parts_of, points_table, titles_of
from twinlens.reporting.run.points import part_details, why_rows
from twinlens.reporting.run.subject import subject
from twinlens.reporting.text.sentence import sentences
from twinlens.reporting.view import Entry, LensView, View, runs_word
from twinlens.spec.point import FROM_LOG
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Group

_MOST_SUBJECTS = 6


def report_document(view: View, diagnose: Diagnose = diagnose_repeats) -> Document:
    """The whole report. `diagnose`: one that knows more than the run itself."""
    groups = [each for lens in view.lenses for each in lens.groups]
    turns = paired_of(groups, [run for run, _ in view.material])
    blocks = list(_blocks(view, groups, turns, diagnose))
    shown = {id for lens in view.lenses for group in lens.groups for id in group.metrics} | set(_linked(blocks))
    terms = definitions([id for id in METRICS if id in shown])
    count = Line(f"{len(terms)} definitions, each of a figure that this page has.", "dim")
    blocks.append(Section("Definitions", (count, Terms(terms)), level=2, anchor="definitions", on_paper=False))
    return Document.of(view.title, "\n".join(subjects(view)), blocks, extent=f"{what(view)} · {when(view)}")


def render(view: View, diagnose: Diagnose = diagnose_repeats) -> str:
    """The report as one HTML file. Everything foreign is escaped; charts are static SVG."""
    return html(report_document(view, diagnose))


def write(view: View, path: str | Path, diagnose: Diagnose = diagnose_repeats, *, unfolded: bool = False) -> Path:
    """Write the report to `path`, making its folder. Raises BadInput (TL207) when the disk refuses it.

    `unfolded`: every fold is open.
    """
    return write_document(report_document(view, diagnose), path, unfolded=unfolded)


def _blocks(view: View, groups: Sequence[Group], turns: Sequence[Paired], diagnose: Diagnose) -> Iterator[Block]:
    facts, machines, parts = stack(view), machine_lines(view), parts_of(groups)
    diagnosed = {lens.lens: diagnosed_points(lens, diagnose) for lens in view.lenses}
    shared, titles = titles_of(parts, has_lens=False)
    said = sentences(view.groups("training"), view.groups("inference"), searches=view.searches, paired=turns)
    yield panels(view, {"training": said[0], "inference": said[1]}, diagnosed)
    yield from (Line(each, "dim") for each in (said[2], shared, *machines))
    if len(machines) > 1:
        told = f"{len(machines)} machines: each has its own tables and charts, and no ratio is made across them."
        yield Line(told, "dim")
    yield against_box(view, facts)
    for lens in view.lenses:
        mine = [(part, title) for part, title in zip(parts, titles, strict=True) if part.lens == lens.lens]
        yield Title(lens.lens.capitalize(), anchor=lens.lens)
        yield from _lens(lens, view, mine, [each for each in turns if each.group.lens == lens.lens])
        binds = tuple(points_blocks(*diagnosed[lens.lens]))
        yield Section(f"What binds {lens.lens}", binds, level=3, anchor=f"binds-{lens.lens}", on_paper=False)
    executor, method = tuple(executor_blocks(facts)), tuple(method_blocks(view))
    yield Section("The executor that really ran", executor, level=2, anchor="executor", on_paper=False)
    yield Section("How it was measured", method, level=2, anchor="method", on_paper=False)


def _lens(lens: LensView, view: View, parts: Sequence[tuple[TablePart, str]], turns: Sequence[Paired]
          ) -> Iterator[Block]:  # fmt: skip
    """Its tables, each with what stands below it. Ratios stand first where they say more than rates."""
    runs = {run.id: run for run, _ in view.material}
    leads = ratios_lead(lens.groups, turns)
    ratios = [Title("Ratios from paired slices", level=3), *paired_blocks(turns)] if turns else []
    yield from ratios if leads else ()
    batches = lens.under("lockstep")
    in_batches = [each for each in parts if each[0].load not in SERVED]
    for (part, title), entries, drawn in zip(in_batches, batches.parts, charts(batches, turns), strict=True):
        model = display.clean(part.groups[0].model, 60)
        yield from table_blocks(part, title, runs, turns)
        yield from charts_section(f"of {model}", drawn.main)
        yield from (Line(each, "dim") for each in drawn.missing)
        yield from charts_section("over time: how the runs went", drawn.timelines)
        yield from metric_sections(entries)
    yield from () if leads else ratios
    for number, entries in enumerate(lens.under(*SERVED).parts):
        groups = [entry.group for entry in entries]
        mine = [(part, title) for part, title in parts if part.load in SERVED and part.groups[0] in groups]
        tables = [block for part, title in mine for block in table_blocks(part, title, runs)]
        yield from served_blocks(lens, entries, tables, f"served{number}", view.searches)
        yield from metric_sections(entries)


def table_blocks(part: TablePart, title: str, runs: Mapping[str, Run], turns: Sequence[Paired] = ()) -> Iterator[Block]:
    """The table of a part under its title, why points of it are not valid, and what its heads mean."""
    yield Title(title, level=3)
    yield points_table(part, turns)
    yield from why_rows(part)
    yield Line(absent_words(part.absent), "dim")
    yield from part_details(part, runs)


def charts_section(of: str, drawn: Sequence[Figure]) -> Iterator[Section]:
    """Charts in a fold that counts them; nothing where there is none."""
    if drawn:
        title = f"{len(drawn)} chart{'s' if len(drawn) > 1 else ''} {of}"
        yield Section(title, (Drawing(lambda: drawn),), on_paper=False)


def metric_sections(entries: Sequence[Entry]) -> Iterator[Section]:
    """Every metric of each point in full, a fold a point."""
    return (_metrics(entry.name, entry.group) for entry in entries)


def _metrics(name: str, group: Group) -> Section:
    def lacks(metric: str) -> str:
        """Why the first run that says so has none."""
        known = (run.metrics[metric] for run in group.runs if metric in run.metrics)
        return next((each.lacks for each in known if each.reason), "")

    caption = (
        f"{group.lens.capitalize()} of {display.clean(group.model, 60)}, {name}: every metric with its interval, "
        "number of observations, origin and method."
    )
    return Section(f"All metrics of {name}", metric_blocks(group.metrics, caption, lacks), on_paper=False)


def _linked(blocks: Sequence[Block]) -> Iterator[str]:
    """The metrics that heads and rows of tables name."""
    for each in whole(blocks):
        if isinstance(each, Table):
            yield from filter(None, (*each.keys, *each.row_keys))
        elif isinstance(each, Section):
            yield from _linked(each.blocks)


# The head of the page.


def when(view: View) -> str:
    """From the first start to the last end, UTC."""
    starts = sorted(run.started_utc for run, _ in view.material)
    is_read = all(run.spec.executor.kind == FROM_LOG and run.place == "recorded" for run, _ in view.material)
    read = "read " if is_read else ""
    ends = sorted(run.ended_utc for run, _ in view.material if run.ended_utc)
    return f"{read}{display.clock(starts[0])}{f' to {display.clock(ends[-1])}' if ends else ', not ended'}"


def subjects(view: View) -> tuple[str, ...]:
    """The models and stacks that ran: a line for each model and stack: the first few, and how many more there are."""
    lines = tuple(dict.fromkeys(subject(run, summary, with_precision=False) for run, summary in view.material))
    rest = len(lines) - _MOST_SUBJECTS
    return (*lines[:_MOST_SUBJECTS], f"and {rest} more") if rest > 1 else lines


def what(view: View) -> str:
    """The numbers of runs and points in one line."""
    counts = []
    for lens in view.lenses:
        runs, points = sum(len(entry.material) for entry in lens.entries), len(lens.entries)
        counts.append(f"{lens.lens}: {points} operating point{'s' if points > 1 else ''}, {runs_word(runs)}")
    return "; ".join(counts)
