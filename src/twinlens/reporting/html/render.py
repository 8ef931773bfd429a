"""One HTML file that shows everything and fetches nothing: styles, charts and definitions stand inside it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from twinlens.diagnosis.diagnosis import diagnose_repeats
from twinlens.errors import BadInput
from twinlens.record.store import write_text
from twinlens.reporting.chart.all import charts
from twinlens.reporting.chart.figure import colour
from twinlens.reporting.driven import is_driven
from twinlens.reporting.html import page
from twinlens.reporting.html.cards import with_cards
from twinlens.reporting.html.diagnosed import Diagnose, diagnosed_points
from twinlens.reporting.html.method import definitions, reproduce
from twinlens.reporting.html.panel import panels
from twinlens.reporting.html.serving_page import served_parts
from twinlens.reporting.html.stack import LETTERS, machine_lines, stack
from twinlens.reporting.html.validity import validity
from twinlens.reporting.paired import beside_words, ratios_lead
from twinlens.reporting.text.paired_table import HEADS, LEGEND, cells, paired_of
from twinlens.reporting.text.sentence import sentences
from twinlens.reporting.view import View
from twinlens.reporting.wording.finding import label_words
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
    every = [part for served_part in served.values() for part in served_part]
    details = [each for part in parts for each in part.details] + [each for part in every for each in part.details]
    shown = [column for part in parts for column in part.columns]
    shown += [column for part in every for table in part.tables for column in table.columns]
    shown += [column for part in every for table in part.tables if table.held for column in table.held.columns]
    diagnosed = {lens.lens: diagnosed_points(lens, diagnose) for lens in view.lenses}
    said = sentences(view.groups("training"), view.groups("inference"), searches=view.searches, paired=turns)
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
        diagnosed=diagnosed,
        parts={lens.lens: [part for part in parts if part.lens == lens.lens] for lens in view.lenses},
        served=served,
        paired=ratios,
        lead={lens.lens: ratios_lead(lens.groups, ratios[lens.lens]) for lens in view.lenses},
        paired_cells=cells,
        paired_heads=HEADS,
        paired_legend=LEGEND,
        paired_beside=beside_words,
        stack=facts,
        letters=LETTERS,
        standing=label_words,
        is_driven=is_driven,
        why=page.why,
        colour=colour,
        methods=reproduce(view),
        definitions=definitions(page.metric_ids(details, heads)),
    )  # fmt: skip


def write(view: View, path: str | Path, diagnose: Diagnose = diagnose_repeats) -> Path:
    """Write the report to `path`, making its folder. Raises BadInput (TL207) when the disk refuses it."""
    return write_page(render(view, diagnose), path)


def write_page(text: str, path: str | Path) -> Path:
    """Write a page to `path`, making its folder; a page that was there stays until the new one is whole.

    Raises BadInput (TL207) when the disk refuses it.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")  # a device or a pipe, into which nothing can be renamed
        else:
            write_text(target, text)
    except OSError as error:
        raise BadInput(f"the report cannot be written to {target}: {error.strerror}", code="TL207") from None
    return target


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates, with everything foreign escaped."""
    environment = Environment(
        loader=PackageLoader("twinlens.reporting.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The only text that is not escaped: SVG that figure.py parsed and found to hold drawing alone.
    environment.filters["drawn"] = Markup
    environment.filters["with_cards"] = with_cards
    environment.filters["capitalize_first"] = _capital
    return environment


def _capital(text: str) -> str:
    """With a capital letter, where it opens with a word and not with a name such as "h200-sxm-141gb"."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].rstrip(":,;").isalpha() else text
