"""Tables for a terminal of 80 columns: values that line up, intervals under them, reasons as footnotes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.gate import agreement_of, gate_legend, gate_word, why_no_gate
from twinlens.reporting.load_kind import SERVED, LoadKind, load_of
from twinlens.reporting.machine import machine_words
from twinlens.reporting.point_name import point_names
from twinlens.reporting.text.column import Column, absent_of, columns, not_measured
from twinlens.reporting.text.first_lines import MOST
from twinlens.reporting.text.footnote import Footnotes, hanging, in_lines
from twinlens.reporting.text.serving_table import served_table
from twinlens.reporting.view import in_order, why_not_valid
from twinlens.reporting.wording.finding import clause_of, label_words, sentence_of, short
from twinlens.reporting.wording.training import IMPOSSIBLE
from twinlens.spec.precision import Lens
from twinlens.stats.metrics.definition import METRICS, is_impossible
from twinlens.stats.metrics.training import EQUAL_STEPS
from twinlens.stats.summary.group import Group, Summary

_NAME_WIDTH = 15


def summary_table(
    groups: Sequence[Group], lens: Lens, notes: Footnotes | None = None, runs: Sequence[Run] = ()
) -> RenderableType:
    """One lens's operating points: sustained rate and what stands beside it, each with its interval.

    One table for a model on a machine, and one more for each way in which it was served. Groups that are not valid
    stand apart at its end; these, and provisional ones, have the reason below. Fits 80 columns; a dash and a
    footnote: not measured.
    `notes`: those of the tables above, whose count goes on. `runs`: of the groups, whose rows compare policies.
    """
    by_id = {run.id: run for run in runs}
    notes = Footnotes() if notes is None else notes
    chosen = in_order([group for group in groups if group.lens == lens])
    if not chosen:
        return Text(f"{lens.capitalize()}: not measured.")
    parts: dict[tuple[str, str, LoadKind], list[Group]] = {}
    for group in chosen:
        parts.setdefault((group.model, group.tag, load_of(group)), []).append(group)
    return Stack(
        *(
            served_table(load, groups, notes, by_id) if load in SERVED else _of_model(lens, groups, notes)
            for (_, _, load), groups in parts.items()
        )
    )


def metric_table(summary: Summary) -> RenderableType:
    """Every metric of one run: value, interval, n, origin, and method as a footnote. Absent ones say why."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name, side in (
        ("metric", "left"),
        ("value", "right"),
        ("interval", "right"),
        ("n", "right"),
        ("origin", "left"),
    ):
        table.add_column(name, justify=side, no_wrap=name != "metric")  # type: ignore[arg-type]
    notes = Footnotes()
    last = None
    for key in _in_table_order(summary.metrics):
        known = METRICS.get(key)
        if summary.metrics[key].value is None:
            continue
        if last is not None and known and known.group != last:
            table.add_section()
        last = known.group if known else last
        _add_metric(table, known.label if known else display.clean(key, 30), summary.metrics[key], notes)
    head = (
        f"{display.clean(summary.run)}: {summary.state}, {summary.rows:,} rows, {summary.lens} lens, "
        f"{display.clean(summary.model)}"
    )
    lines = [Text(head, style="bold"), *_standing(summary)]
    told = [display.clean(note, 600) for note in summary.notes]
    told += [sentence_of(finding) for finding in summary.findings if finding.severity == "notes"]
    return Stack(
        *lines,
        table,
        *not_measured(absent_of(summary.metrics)),
        *notes.listed(),
        *(hanging("! ", words, "yellow") for words in told),
    )


def _of_model(lens: Lens, chosen: Sequence[Group], notes: Footnotes) -> RenderableType:
    names = dict(zip(map(id, chosen), point_names(chosen), strict=True))
    ordered = sorted(chosen, key=lambda group: not group.ranked)  # provisional ones stay in their place
    table = _empty(lens, chosen)
    for before, group in zip([None, *ordered], ordered, strict=False):
        if before is not None and before.ranked and not group.ranked:
            table.add_section()
        _add(table, group, names[id(group)], columns(lens, chosen), notes)
    title = Text(display.clean(f"{lens.capitalize()} · {chosen[0].model}{machine_words(chosen[0])}", 160), style="bold")
    doubts = [
        hanging(f"{display.MARKS[group.validity]} ", f"{names[id(group)]} is {why}", display.STYLES[group.validity])
        for group in ordered
        if (why := why_not_valid(group)) is not None
    ]
    legend = hanging("", _legend(chosen, lens), "dim")
    return Stack(title, Text(""), table, Text(""), *doubts, *notes.listed_since(), legend, Text(""))


def _empty(lens: Lens, groups: Sequence[Group]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("", overflow="fold", max_width=_NAME_WIDTH)  # it gives way first: a number is never cut
    for column in columns(lens, groups):
        table.add_column(column.head.replace(" ", "\n"), justify="right", no_wrap=True)
        if lens == "inference" and column.head == "memory":
            table.add_column("quality", justify="right", no_wrap=True)
    return table


def _add(table: Table, group: Group, name: str, shown: Sequence[Column], notes: Footnotes) -> None:
    style = "" if group.ranked else "dim"
    lines = [
        *(line for part in name.split(" · ") for line in in_lines(part, _NAME_WIDTH)),
        *([] if group.validity == "valid" else [group.validity]),
    ]
    cells = [Text("\n".join(lines), style=style)]
    for column in shown:
        cells.append(_cell(column, group, notes, style))
        if group.lens == "inference" and column.head == "memory":
            cells.append(_fidelity(group, notes, style))
    table.add_row(*cells)


def _cell(column: Column, group: Group, notes: Footnotes, style: str) -> Text:
    pair = column.estimate(group)
    if pair is None or pair[1].value is None:
        letter = notes.mark(f"{column.head}: not measured: {column.reason(group, counted=False)}")
        return Text(f"{display.ABSENT} {letter}", style=style)
    estimate = pair[1]
    under = display.under(estimate)
    if estimate.low is None and column.head not in ("memory", "energy"):
        under = notes.mark(f"no interval: {display.no_interval(estimate, counted=False)}")
    if is_impossible(*pair):
        under = f"{under} {notes.mark(f'{column.head}: {IMPOSSIBLE}')}"
    return Text(f"{column.text(group)}\n{under}", style=style)


def _fidelity(group: Group, notes: Footnotes, style: str) -> Text:
    word, agreement = gate_word(group), agreement_of(group)
    under = display.value(agreement[1]) if agreement else ""
    colour = {"pass": "green", "fail": "red"}.get(word, style)
    if word == "not measured":
        return Text(f"{display.ABSENT} {notes.mark(f'quality: not measured: {why_no_gate(group)}')}", style=style)
    first = {"reference": "ref"}.get(word, word)
    return Text(f"{first}\n{under}", style=colour)


def _legend(groups: Sequence[Group], lens: Lens) -> str:
    counts = sorted({len(group.runs) for group in groups})
    runs = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    words = [
        f"Each row: {runs} run{'s in fresh processes' if counts[-1] > 1 else ' in a fresh process'}.",
        *display.legend(
            pair[1] for group in groups for column in columns(lens, groups) if (pair := column.estimate(group))
        ),
        "of peak: sustained rate as a share of the peak rate.",
    ]
    if lens == "inference":
        words.append(gate_legend(groups))
    losses = [loss for group in groups for run in group.runs if (loss := run.metrics.get("final_loss")) is not None]
    if any(EQUAL_STEPS in loss.method for loss in losses):
        words.append("loss: after as many steps as every point took.")
    return " ".join(words)


def _in_table_order(metrics: Mapping[str, Estimate]) -> list[str]:
    order = list(METRICS)
    groups = list(dict.fromkeys(metric.group for metric in METRICS.values()))

    def place(key: str) -> tuple[int, int]:
        return (groups.index(METRICS[key].group), order.index(key)) if key in METRICS else (len(groups), 0)

    return sorted(metrics, key=place)


def _standing(summary: Summary) -> list[RenderableType]:
    """The verdict, and below it the gravest findings: what a reader must know before any number."""
    verdict, label = summary.verdict, label_words(summary.verdict.label)
    causes = [
        short(finding.code) for finding in summary.disqualified if finding.code != "client-limit" or label != "invalid"
    ]
    if summary.state != "finished":
        causes.insert(0, display.clean(summary.state))
    why = f": {', '.join(dict.fromkeys(causes))}" if causes else ""
    steady = verdict.validity != "not valid"
    window = f" Steady window {verdict.begin_s:.1f}–{verdict.end_s:.1f} s of the run." if steady else ""
    lines: list[RenderableType] = [
        Text(
            f"{label} ({summary.validity}{why}): {clause_of(verdict.reason)}.{window}",
            style="" if summary.ranked else "yellow",
        )
    ]
    told = [finding for finding in summary.findings if finding.severity != "notes"]
    told = [finding for finding in told if finding.code != "client-limit" or label != "invalid"]
    lines += [
        hanging("✗ " if finding in summary.disqualified else "! ", sentence_of(finding), "yellow")
        for finding in told[:MOST]
    ]
    if len(told) > MOST:
        lines.append(Text(f"… {len(told) - MOST} more: see --json or the report", style="dim"))
    return lines


def _add_metric(table: Table, label: str, estimate: Estimate, notes: Footnotes) -> None:
    shown = display.bounds(estimate) + ("" if estimate.level is not None or estimate.low is None else " (range)")
    count = f"{estimate.n:,}" if estimate.n is not None else display.ABSENT
    origin = f"{estimate.origin} {notes.mark(display.method(estimate))}"
    table.add_row(label, display.value(estimate), shown or display.ABSENT, count, origin)
