"""The text of `show`: one run on a screen, several as points, or all that is known of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.record.beside import SearchRecord
from twinlens.record.finding import Validity
from twinlens.reporting.comparing.paired import paired_document, paired_of
from twinlens.reporting.display import MARKS, STYLES, clean, join_names, legend
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.equal_steps import at_equal_steps
from twinlens.reporting.load_kind import verdict_of
from twinlens.reporting.paired import Paired, ratio_words, ratios_lead
from twinlens.reporting.point_name import point_names
from twinlens.reporting.screen.next_step import next_step
from twinlens.reporting.screen.one_run import run_screen
from twinlens.reporting.screen.point_table import PointTable, TablePart, parts_of, tables_of
from twinlens.reporting.search import outcome_words, search_document, search_interval, swept_point
from twinlens.reporting.text.column import not_measured
from twinlens.reporting.text.first_lines import finding_lines, first_lines, said_of, verdict_words
from twinlens.reporting.text.fitted import EVERY, MORE, Fitted, shortest
from twinlens.reporting.text.footnote import Footnotes, hanging, left_out
from twinlens.reporting.text.table import metric_table, summary_table
from twinlens.reporting.view import LENSES, Material, each_once, given_twice, those_measured, why_not_valid
from twinlens.reporting.wording.finding import verdict_word
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Group, group


def runs_table(
    material: Sequence[Material], searches: Sequence[SearchRecord], *, whole: bool = False
) -> RenderableType:
    """`whole`: every metric of a run that stands alone, the full tables of several. A run that is given twice is shown
    once, and a sentence says so."""
    given, again = each_once(material)
    measured, absent = those_measured(given)
    kept = at_equal_steps(measured)
    parts = [hanging("! ", sentence, "yellow") for sentence in given_twice(again)]
    left_out = [hanging("! ", clean(sentence, 600), "yellow") for sentence in absent]
    if len(kept) == 1:
        parts.append(metric_table(kept[0][1]) if whole else run_screen(*kept[0]))
        return Stack(*parts, *(screen(search_document(record), whole=True) for record in searches if whole))
    groups = group(summary for _, summary in kept)
    turns = paired_of(groups, [run for run, _ in kept])
    if not whole:
        return Stack(*parts, points_screen(groups, turns, searches, _next(kept)), *left_out)
    parts += [first_lines(groups, turns), *left_out]
    notes = Footnotes()
    runs = [run for run, _ in kept]
    lenses = [lens for lens in LENSES if any(member.lens == lens for member in groups)]
    rates = [summary_table(groups, lens, notes, runs) for lens in lenses]
    ratios = [screen(paired_document(turns), whole=True)] if turns else []
    parts += [*ratios, *rates] if ratios_lead(groups, turns) else [*rates, *ratios]
    return Stack(*parts, *(screen(search_document(record), whole=True) for record in searches))


def _next(kept: Sequence[Material]) -> str:
    """The next thing to try: with the first point that is not valid, else with the first; "" where there is none."""
    run, summary = next((pair for pair in kept if not pair[1].ranked), kept[0])
    return next_step(run, summary, of_many=True)


# The points of one or more studies on one screen: a line a point, then which are not valid or provisional, and why.

_TERSE = (
    (5, 1, 1, 1, None),
    (3, 1, 1, 1, None),
    (3, 0, 1, 1, None),
    (2, 0, 1, 1, None),
    (1, 0, 0, 1, None),
    (2, 0, 0, 0, None),
    (1, 0, 0, 0, None),
    (0, 0, 0, 0, None),
    (1, 0, 0, 0, 4),
    (0, 0, 0, 0, 4),
    (0, 0, 0, 0, 2),
    (0, 0, 0, 0, 1),
)
"""How many findings, empty lines, the sentences of marks, reasons rather than labels, and the most ratios."""


def points_screen(
    groups: Sequence[Group], turns: Sequence[Paired] = (), searches: Sequence[SearchRecord] = (), step: str = ""
) -> RenderableType:
    """At most 24 lines at 80 columns for one table of up to eight points; longer on a narrower terminal.

    `turns`: the ratios of points that took turns; `searches`: those that the runs belong to; `step`: what
    to try next.
    """
    return Fitted(lambda width: shortest(_choices(groups, turns, searches, step, width), width))


def _choices(
    groups: Sequence[Group], turns: Sequence[Paired], searches: Sequence[SearchRecord], step: str, width: int
) -> Iterator[RenderableType]:
    """Ever shorter: fewer findings, no empty lines, the sentences of marks in one line, reasons as labels."""
    notes, parts = Footnotes(), parts_of(groups)
    head, tables = tables_of(parts, notes, width)
    style = "bold" if all(group.ranked for group in groups) else "yellow"
    for findings, air, marks, reasons, ratios in _TERSE:
        yield Stack(
            hanging("", f"{verdict_words(groups, turns)}{'' if reasons else _labels(groups)}", style),
            *([hanging("", head, "")] if head else []),
            *_rates_and_ratios(groups, turns, tables, air, ratios),
            *(hanging("", f"{group}.", "bold") for group in _searched(searches)),
            *(_why(parts, findings) if reasons else []),
            *_findings(groups, findings),
            *(notes.listed() if marks else notes.folded()),
            *not_measured([(label, why if reasons else "--all says why") for label, why in _absent(tables)]),
            *(_legend(tables) if ratios is None else []),
            *([hanging("next   ", step, "")] if step else []),
            hanging("more   ", _what_is_left_out(tables), "dim"),
        )


def _rates_and_ratios(
    groups: Sequence[Group], turns: Sequence[Paired], tables: Sequence[PointTable], air: int, most: int | None
) -> list[RenderableType]:
    """The lines of the tables, and those of the ratios before or after them."""
    gap = [Text("")] * air
    rates = [line for table in tables for line in (*gap, *table.lines)]
    ratios = _ratio_lines(turns, most)
    return [*gap, *ratios, *rates, *gap] if ratios_lead(groups, turns) else [*rates, *gap, *ratios]


def _ratio_lines(turns: Sequence[Paired], most: int | None) -> list[RenderableType]:
    """The first metric of each pair before the second of any, where not all have room."""
    if most is None:
        return [hanging("", f"{words}.", "bold") for words in _ratios(turns)]
    pairs = [(turn.result.above, turn.result.below) for turn in turns]
    first = [turn for place, turn in enumerate(turns) if pairs[place] not in pairs[:place]]
    shown = [hanging("", f"{words}.", "bold") for words in _ratios(first[:most])]
    return [*shown, *left_out(len(turns) - len(shown), "ratio")]


def _ratios(turns: Sequence[Paired]) -> list[str]:
    """ "bf16 / fp32: 1.52× (1.44–1.59×) the tokens/s, valid (3 repeats)"."""
    return [
        f"{clean(turn.result.above, 60)} / {clean(turn.result.below, 60)}: {ratio_words(turn)} the "
        f"{METRICS[turn.result.metric].label if turn.result.metric in METRICS else clean(turn.result.metric, 30)}, "
        f"{turn.validity}{f': {turn.fault}' if turn.fault else ''} "
        f"({turn.result.repeats} repeat{'s' if turn.result.repeats != 1 else ''})"
        for turn in turns
    ]


def _searched(searches: Sequence[SearchRecord]) -> list[str]:
    """ "Search, bf16: the highest within the SLO is [8, 8.9) requests/s (narrow: …)"."""
    return [
        f"Search{f', {name}' if (name := swept_point(result)) else ''}: the highest within the SLO is "
        f"{search_interval(result, record.search.unit)} ({outcome_words(result)})"
        for record in searches
        for result in record.results
    ]


def _why(parts: Sequence[TablePart], most: int) -> list[RenderableType]:
    """Why points are not valid, or provisional, those of one table with one verdict in one line; the worst first."""
    alike: dict[tuple[bool, int, str], list[tuple[str, str]]] = {}
    for number, part in enumerate(parts):
        for member, name in zip(part.groups, point_names(part.groups), strict=True):
            if (reason := why_not_valid(member, verdict_word)) is not None:
                error = next((run.error for run in member.runs if run.error), "")
                why = f"{reason}: {clean(error, 300)}" if error else reason
                alike.setdefault((member.ranked, number, verdict_of(member)), []).append((name, why))
    lines: list[RenderableType] = []
    for (ranked, number, _), points in sorted(alike.items(), key=lambda each: each[0][:2]):
        model = f"{clean(parts[number].groups[0].model, 40)}, " if len(parts) > 1 else ""
        names = join_names([name for name, _ in points], 4)
        state: Validity = "provisional" if ranked else "not valid"
        words = f"{model}{names} {'is' if len(points) == 1 else 'are'} {points[0][1]}"
        lines.append(hanging(f"{MARKS[state]} ", words, STYLES[state]))
    return [*lines[:most], *left_out(len(lines) - most, "reason")]


def _labels(groups: Sequence[Group]) -> str:
    """ " Not valid: too short (6), unsteady (1)."; nothing where none is."""
    counts = Counter(verdict_of(group) for group in groups if not group.ranked)
    counted = ", ".join(f"{label} ({count})" for label, count in counts.most_common())
    return f" Not valid: {counted}." if counted else ""


def _findings(groups: Sequence[Group], most: int) -> list[RenderableType]:
    lines = finding_lines(groups)
    shown: list[RenderableType] = [
        hanging("✗ " if line.severity == "disqualifies" else "! ", said_of(line), "yellow") for line in lines[:most]
    ]
    return [*shown, *left_out(len(lines) - most, "finding")]


def _absent(tables: Sequence[PointTable]) -> list[tuple[str, str]]:
    """The first reason for each metric that no point of a table has; nothing where no point has any figure."""
    if not any(table.shown for table in tables):
        return []
    return list(dict(reversed([entry for table in tables for entry in table.absent])).items())


def _legend(tables: Sequence[PointTable]) -> list[RenderableType]:
    sentence = " ".join(legend(estimate for table in tables for estimate in table.shown))
    return [hanging("", sentence, "dim")] if sentence else []


def _what_is_left_out(tables: Sequence[PointTable]) -> str:
    narrow = list(dict.fromkeys(head for table in tables for head in table.left_out))
    return f"left out here: {', '.join(narrow)}; {EVERY}" if narrow else MORE
