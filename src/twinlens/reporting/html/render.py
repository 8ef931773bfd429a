"""One HTML file that shows everything and fetches nothing: styles, charts and definitions stand inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinlens.diagnosis.diagnosis import diagnose_repeats
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Validity
from twinlens.reporting import display
from twinlens.reporting.chart.all import charts
from twinlens.reporting.chart.figure import colour
from twinlens.reporting.comparing.paired import paired_blocks, paired_of
from twinlens.reporting.document.environment import environment, write_page
from twinlens.reporting.document.environment import unfolded as unfold
from twinlens.reporting.document.html import MANY
from twinlens.reporting.document.html import parts as parts_of
from twinlens.reporting.html import page
from twinlens.reporting.html.method import definitions, reproduce
from twinlens.reporting.html.serving_page import served_parts
from twinlens.reporting.html.stack import LETTERS, machine_lines, stack
from twinlens.reporting.html.validity import validity
from twinlens.reporting.judging.diagnosis import Diagnose, Points, diagnosed_points, points_blocks
from twinlens.reporting.load_kind import is_driven
from twinlens.reporting.paired import ratios_lead
from twinlens.reporting.text.policies import HOLD_COLUMNS
from twinlens.reporting.text.sentence import sentences
from twinlens.reporting.view import LENSES, Entry, View, headline
from twinlens.reporting.wording.finding import label_words, sentence_of
from twinlens.spec.precision import Lens
from twinlens.stats.metrics.definition import METRICS
from twinlens.version import __version__

MOST_WARNINGS = 3  # that stand open at the top; the rest is one click away


def render(view: View, diagnose: Diagnose = diagnose_repeats) -> str:
    """The whole report as one HTML document. Everything foreign is escaped; charts are static SVG."""
    facts = stack(view)
    turns = paired_of([each for lens in view.lenses for each in lens.groups], [run for run, _ in view.material])
    ratios = {lens.lens: [each for each in turns if each.group.lens == lens.lens] for lens in view.lenses}
    parts = [
        page.part(lens, entries, drawn, turns)
        for lens in (lens.under("lockstep") for lens in view.lenses)
        for entries, drawn in zip(lens.parts, charts(lens, turns), strict=True)
    ]
    served = {lens.lens: served_parts(lens, view.searches) for lens in view.lenses}
    diagnosed = {lens.lens: diagnosed_points(lens, diagnose) for lens in view.lenses}
    said = sentences(view.groups("training"), view.groups("inference"), searches=view.searches, paired=turns)
    every = [part for served_part in served.values() for part in served_part]
    shown = [column for part in parts for column in part.columns]
    shown += [column for part in every for table in part.tables for column in table.columns]
    shown += [column for part in every for table in part.tables if table.held for column in HOLD_COLUMNS]
    heads = [id for column in shown for id in column.ids[:1]] + [id for part in every for id, _ in part.checks.heads]
    return environment().get_template("report.html.j2").render(
        view=view,
        version=__version__,
        subjects=page.subjects(view),
        most_warnings=MOST_WARNINGS,
        what=page.what(view),
        when=page.when(view),
        machines=machine_lines(view),
        panels=panels(view, {"training": said[0], "inference": said[1]}, diagnosed),
        apart=said[2],
        validity=validity(view, facts),
        binds={lens: list(parts_of(list(points_blocks(*each)))) for lens, each in diagnosed.items()},
        many=MANY,
        parts={lens.lens: [part for part in parts if part.lens == lens.lens] for lens in view.lenses},
        served=served,
        paired={lens: list(parts_of(list(paired_blocks(mine)))) if mine else [] for lens, mine in ratios.items()},
        lead={lens.lens: ratios_lead(lens.groups, ratios[lens.lens]) for lens in view.lenses},
        stack=facts,
        letters=LETTERS,
        standing=label_words,
        is_driven=is_driven,
        why=page.why,
        colour=colour,
        methods=reproduce(view),
        definitions=definitions(page.metric_ids(view, heads)),
    )  # fmt: skip


def write(view: View, path: str | Path, diagnose: Diagnose = diagnose_repeats, *, unfolded: bool = False) -> Path:
    """Write the report to `path`, making its folder. Raises BadInput (TL207) when the disk refuses it.

    `unfolded`: every fold is open.
    """
    page = render(view, diagnose)
    return write_page(unfold(page) if unfolded else page, path)


# The two panels that open a report: of each lens a picture of its rate, what binds it, and one plain sentence.

_MOST = 5
"""Points of a picture; a table below has all."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One point: its value and interval in words, and where they lie in per cent of the width. `low` and `span` are ""
    where an end of the interval is not known: nothing is drawn then."""

    name: str
    precision: str
    value: str
    interval: str
    validity: Validity
    width: str
    low: str
    span: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One lens. `head`: what is drawn; `of`: the model and the machine; `more`: points that are in the table alone."""

    lens: Lens
    head: str
    of: str
    bars: tuple[Bar, ...]
    more: int
    binds: str
    sentence: str


def panels(
    view: View, said: Mapping[str, str], diagnosed: Mapping[Lens, tuple[Points, Sequence[str]]]
) -> tuple[Panel, ...]:
    """A panel for each lens that was measured, training first; never one for both. `said`: a sentence of each lens."""
    return tuple(
        _panel(lens.lens, lens.parts[0], len(lens.entries), said.get(lens.lens, ""), diagnosed[lens.lens][0])
        for lens in sorted(view.lenses, key=lambda each: LENSES.index(each.lens))
        if lens.entries
    )


def _panel(lens: Lens, entries: Sequence[Entry], points: int, said: str, diagnosed: Points) -> Panel:
    ordered = sorted(entries, key=lambda each: not each.group.ranked)
    known = [
        (each, pair) for each in ordered if (pair := headline(each.group)) is not None and pair[1].value is not None
    ]
    metric = known[0][1][0] if known else ""
    shown = [(each, pair[1]) for each, pair in known if pair[0] == metric][:_MOST]
    most = max((end for _, estimate in shown for end in (estimate.value, estimate.high) if end), default=1.0)
    lead = shown[0][0] if shown else ordered[0]
    binds = next((each for name, each in diagnosed if name == lead.name), None)
    machine = lead.group.machine
    of = " · ".join([lead.group.model, *([machine.name] if machine else [])])
    return Panel(
        lens,
        METRICS[metric].label if metric else "rate, which was not measured",
        display.clean(of, 100),
        tuple(_bar(each, estimate, most) for each, estimate in shown),
        points - len(shown),
        "" if binds is None else f"{display.clean(lead.name, 80)}: {sentence_of(binds.verdict)}",
        said,
    )


def _bar(entry: Entry, estimate: Estimate, most: float) -> Bar:
    value = float(estimate.value or 0.0)
    low, high = estimate.low, estimate.high
    start, span = (_part(low, most), _part(high - low, most)) if low is not None and high is not None else ("", "")
    return Bar(
        display.clean(entry.name, 60),
        entry.precision,
        display.value(estimate),
        display.bare_bounds(estimate) or "no interval",
        entry.group.validity,
        _part(value, most),
        start,
        span,
    )


def _part(value: float, most: float) -> str:
    """A length in per cent of the longest, for a style."""
    return f"{100 * max(0.0, value) / most:.2f}"
