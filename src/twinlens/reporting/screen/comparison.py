"""Comparisons on one screen: the verdict first, then what differs, then each effect with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.comparison.ranking import Ranking
from twinlens.comparison.verdict import Comparison
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.comparison import (
    HEADS,
    LEGEND,
    Row,
    first_effect,
    not_measured_words,
    rows_of,
    short_pair,
    side_words,
    subject_words,
    verdict_counts,
    verdict_words,
)
from twinlens.reporting.ranking import ranking_table
from twinlens.reporting.screen.left_out import left_out
from twinlens.reporting.text.fitted import Fitted, FittedTable, shortest
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.view import LENSES
from twinlens.reporting.wording.effect import label_of
from twinlens.reporting.wording.finding import sentence_of

_MARKS = {"disqualifies": "✗ ", "warns": "! ", "notes": "  "}
_STYLES = {"comparable": "green", "comparable with qualifiers": "yellow"}
_ANSWERS = ("scaling-efficiency", "adapter-cost")  # what such a comparison is made for, so never left out
# How many findings and how many rows, whether there are empty lines, and the legend.
_MOST_ROWS = 14
_MOST_RANKINGS = 3
_TERSE = ((9, 14, 1, 1), (9, 14, 0, 1), (6, 10, 0, 1), (4, 8, 0, 1), (3, 6, 0, 0), (2, 4, 0, 0), (1, 3, 0, 0))


def comparison_screen(
    comparisons: Sequence[Comparison], alone: Sequence[str] = (), ranks: Sequence[Ranking] = ()
) -> RenderableType:
    """One comparison, or a table of several; at most 24 lines at 80 columns. `alone`: points without a counterpart."""
    if len(comparisons) == 1:
        return Fitted(lambda width: shortest(_choices(comparisons[0], alone, width), width))
    return Fitted(lambda width: shortest(_several(comparisons, alone, ranks), width))


def whole_screen(
    comparisons: Sequence[Comparison], alone: Sequence[str] = (), ranks: Sequence[Ranking] = ()
) -> RenderableType:
    """Every comparison with every metric and every finding."""
    return Stack(
        *(_one(each, rows_of(each, whole=True), each.findings, 1, 1) for each in comparisons),
        *_ranks(ranks),
        *_alone(alone),
    )


def _choices(comparison: Comparison, alone: Sequence[str], width: int) -> Iterator[RenderableType]:
    rows = rows_of(comparison)
    answers = [each for each in comparison.findings if each.code in _ANSWERS]
    others = [each for each in comparison.findings if each not in answers]
    for findings, lines, air, legend in _TERSE:
        shown = [*answers, *others[:findings]]
        left = len(comparison.findings) - len(shown) + len(rows) - len(rows[:lines])
        more = left_out(left, "line")
        yield Stack(_one(comparison, rows[:lines], shown, air, legend), *more, *_alone(alone))


def _one(
    comparison: Comparison, rows: Sequence[Row], findings: Sequence[Finding], air: int, legend: int
) -> RenderableType:
    lines: list[RenderableType] = [
        hanging("", verdict_words(comparison), f"bold {_STYLES.get(comparison.verdict, 'red')}"),
        *(_finding(each) for each in findings if each.severity == "disqualifies"),
        Text(subject_words(comparison), style="bold"),
        hanging("A  ", side_words(comparison.a), ""),
        hanging("B  ", side_words(comparison.b), ""),
        *(_finding(each) for each in findings if each.severity != "disqualifies"),
    ]
    lines += [Text("")] * air
    if rows:
        lines += [_table(rows), *[Text("")] * air]
    if absent := not_measured_words(comparison):
        lines.append(hanging("", absent, "dim"))
    if rows and legend:
        lines.append(hanging("", LEGEND, "dim"))
    return Stack(*lines)


def _table(rows: Sequence[Row]) -> RenderableType:
    cells = tuple((Text(row.label), *(Text(cell) for cell in row.cells)) for row in rows)
    table = FittedTable(("", *HEADS), ("left", *["right"] * len(HEADS)), cells)
    return table.table()


def _several(
    comparisons: Sequence[Comparison], alone: Sequence[str], ranks: Sequence[Ranking]
) -> Iterator[RenderableType]:
    """A table a lens, never one for both; ever fewer sentences below."""
    lenses = [[each for each in comparisons if each.a.lens == lens] for lens in LENSES]
    findings = list(dict.fromkeys(_said(each) for each in comparisons))
    for most, rows in ((8, _MOST_ROWS), (4, _MOST_ROWS), (2, _MOST_ROWS), (1, 10), (1, 6), (0, 3)):
        tables = [_of_lens(mine[:rows]) for mine in lenses]
        hidden = len(comparisons) - sum(len(mine[:rows]) for mine in lenses)
        left = left_out(len(findings) - most, "finding")
        yield Stack(
            hanging("", verdict_counts(comparisons), "bold"),
            *(line for table in tables for line in table),
            *left_out(hidden, "comparison"),
            *_ranks(ranks),
            *(hanging("! ", sentence, "yellow") for sentence in findings[:most] if sentence),
            *left,
            *_alone(alone),
            hanging("more   ", "--all: every comparison with its findings and figures; --json: as data", "dim"),
        )


def _of_lens(comparisons: Sequence[Comparison]) -> list[RenderableType]:
    if not comparisons:
        return []
    heads = ("", "B", "A", "", "B / A", "95% interval")
    rows = tuple(_line(each) for each in comparisons)
    title = Text(comparisons[0].a.lens.capitalize(), style="bold")
    return [title, FittedTable(heads, ("left",) * 4 + ("right",) * 2, rows).table()]


def _line(comparison: Comparison) -> tuple[Text, ...]:
    effect = first_effect(comparison)
    mark = {"comparable": "✓", "comparable with qualifiers": "!"}.get(comparison.verdict, "✗")
    names = short_pair(comparison.b, comparison.a)
    if effect is None:
        return tuple(map(Text, (mark, *names, "", display.ABSENT, display.ABSENT)))
    bounds = display.factor_bounds(effect.ratio) or display.ABSENT
    cells = (mark, *names, label_of(effect.metric), display.factor(effect.ratio), bounds)
    return tuple(Text(cell, style="" if effect.apart else "dim") for cell in cells)


def _ranks(ranks: Sequence[Ranking]) -> list[RenderableType]:
    """Candidates down, rankings across: each lens and point has a column of its own, and none is for all."""
    if not ranks:
        return []
    heads, lines = ranking_table(ranks[:_MOST_RANKINGS])
    rows = tuple(tuple(map(Text, (display.clean_end(line[0], 30), *line[1:]))) for line in lines)
    hidden = len(ranks) - _MOST_RANKINGS
    left = left_out(hidden, "ranking", "--json")
    return [FittedTable(heads, ("left", *["right"] * (len(heads) - 1)), rows).table(), *left]


def _said(comparison: Comparison) -> str:
    """The gravest finding of a comparison; "" where it has nothing against it."""
    grave = [each for each in comparison.findings if each.severity != "notes"]
    return sentence_of(grave[0]) if grave else ""


def _finding(finding: Finding) -> RenderableType:
    style = {"disqualifies": "red", "warns": "yellow"}.get(finding.severity, "")
    return hanging(_MARKS[finding.severity], sentence_of(finding), style)


def _alone(alone: Sequence[str]) -> list[RenderableType]:
    if not alone:
        return []
    return [hanging("! ", f"No counterpart, so not compared: {display.join_names(list(alone), 4)}.", "yellow")]
