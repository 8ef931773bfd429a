"""Runs as GitHub-flavoured Markdown, for an issue or a pull request: verdict, tables, facts, and the method folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from twinlens.record.run import Run
from twinlens.reporting.comparing.paired import paired_of
from twinlens.reporting.display import escaped
from twinlens.reporting.equal_steps import at_equal_steps
from twinlens.reporting.paired import ratio_words
from twinlens.reporting.screen.figures import figures_of
from twinlens.reporting.screen.one_run import verdict_line
from twinlens.reporting.screen.point_table import parts_of, whole_table
from twinlens.reporting.screen.subject import subject
from twinlens.reporting.screen.workload import workload_words
from twinlens.reporting.text.first_lines import finding_lines, said_of, verdict_words
from twinlens.reporting.text.fitted import FittedTable
from twinlens.reporting.text.footnote import Footnotes
from twinlens.reporting.view import Material, each_once, those_measured, why_not_valid
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Group, Summary, group
from twinlens.version import __version__


def markdown(material: Sequence[Material]) -> str:
    """One run with its figures, or several as a table of points. Foreign words are escaped: they are only text."""
    measured, absent = those_measured(each_once(material)[0])
    kept = at_equal_steps(measured)
    blocks = _of_run(*kept[0]) if len(kept) == 1 else _of_points(kept)
    blocks.append(_items(absent))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _of_run(run: Run, summary: Summary) -> list[str]:
    figures = figures_of(run, summary)
    methods = [
        f"{METRICS[id].label if id in METRICS else id}: {estimate.method}"
        for id, estimate in summary.metrics.items()
        if estimate.value is not None
    ]
    absent = [f"{label} is not measured: {why}" for label, why in figures.absent]
    return [
        f"**{escaped(verdict_line(summary))}**",
        _facts([run], [summary]),
        *(_table(estimate) for estimate in figures.tables),
        _items([*_numbered(figures.notes), *absent]),
        _items(sentence_of(estimate) for estimate in summary.findings if estimate.severity != "notes"),
        _folded("How each figure was computed", _items(methods)),
    ]


def _of_points(material: Sequence[Material]) -> list[str]:
    groups, notes = group(summary for _, summary in material), Footnotes()
    turns = paired_of(groups, [run for run, _ in material])
    tables = []
    for part in parts_of(groups):
        title, rows = whole_table(part, notes)
        tables += [f"**{escaped(title)}**", _table(rows)]
    ratios = [f"{each.result.above} / {each.result.below}: {ratio_words(each)}" for each in turns if each.ranked]
    first = [next(pair for pair in material if pair[1] is each.runs[0]) for each in groups]
    return [
        f"**{escaped(verdict_words(groups, turns))}**",
        *tables,
        _items([*ratios, *_not_valid(groups), *(said_of(line) for line in finding_lines(groups))]),
        _folded(
            "What ran, and why some figures have no interval",
            "\n\n".join(part for part in (_facts(*zip(*first, strict=True)), _items(_numbered(notes))) if part),
        ),
    ]


def _not_valid(groups: Sequence[Group]) -> list[str]:
    reasons = [why for member in groups if (why := why_not_valid(member)) is not None]
    return list(dict.fromkeys(reasons))


def _facts(runs: Sequence[Run], summaries: Sequence[Summary]) -> str:
    lines = [
        f"{subject(run, summary)}; {workload_words(run, summary)}" for run, summary in zip(runs, summaries, strict=True)
    ]
    return _items([*dict.fromkeys(lines), f"Twinlens {__version__}"])


def _numbered(notes: Footnotes) -> list[str]:
    return [f"[{place}] {sentence}" for place, sentence in enumerate(notes.sentences(), start=1)]


def _table(rows: FittedTable) -> str:
    """A table with a head; one without heads has empty ones, as Markdown knows no other."""
    heads = [head.replace("\n", " ") for head in rows.heads]
    sides = [("---:" if side == "right" else "---") for side in rows.sides]
    lines = [[escaped(head) for head in heads], sides, *([_cell(cell) for cell in row] for row in rows.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: Text) -> str:
    return escaped(text.plain)


def _items(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(sentence)}" for sentence in sentences)


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>" if body else ""
