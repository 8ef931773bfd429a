"""The text of `show`: one run on a screen, several as points, or all that is known of them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group as Stack
from rich.console import RenderableType

from twinlens.record.beside import SearchRecord
from twinlens.reporting.display import clean
from twinlens.reporting.equal_steps import at_equal_steps
from twinlens.reporting.paired import ratios_lead
from twinlens.reporting.screen.next_step import next_step
from twinlens.reporting.screen.one_run import run_screen
from twinlens.reporting.screen.points import points_screen
from twinlens.reporting.text.first_lines import first_lines
from twinlens.reporting.text.footnote import Footnotes, hanging
from twinlens.reporting.text.paired_table import paired_of, paired_table
from twinlens.reporting.text.search_table import search_table
from twinlens.reporting.text.table import metric_table, summary_table
from twinlens.reporting.view import LENSES, Material, each_once, given_twice, those_measured
from twinlens.stats.summary.group import group


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
        return Stack(*parts, *(search_table(record) for record in searches if whole))
    groups = group(summary for _, summary in kept)
    turns = paired_of(groups, [run for run, _ in kept])
    if not whole:
        return Stack(*parts, points_screen(groups, turns, searches, _next(kept)), *left_out)
    parts += [first_lines(groups, turns), *left_out]
    notes = Footnotes()
    runs = [run for run, _ in kept]
    lenses = [lens for lens in LENSES if any(member.lens == lens for member in groups)]
    rates = [summary_table(groups, lens, notes, runs) for lens in lenses]
    ratios = [paired_table(turns)] if turns else []
    parts += [*ratios, *rates] if ratios_lead(groups, turns) else [*rates, *ratios]
    return Stack(*parts, *(search_table(record) for record in searches))


def _next(kept: Sequence[Material]) -> str:
    """The next thing to try: with the first point that is not valid, else with the first; "" where there is none."""
    run, summary = next((pair for pair in kept if not pair[1].ranked), kept[0])
    return next_step(run, summary, of_many=True)
