"""A plan as one self-contained HTML file: the answer, its charts and tables, then every figure with its arithmetic.

A verb gives a `PlanPage`: sentences, charts and the figures at the top of its tree. The rest is the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twinlens.planning.figure import Figure as Planned
from twinlens.planning.figure import Input
from twinlens.record.finding import Finding
from twinlens.reporting.chart.figure import Figure as Chart
from twinlens.reporting.display import clean
from twinlens.reporting.html.render import environment, write_page
from twinlens.reporting.wording.amount import amount, span
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.money import NAMES as MONEY
from twinlens.reporting.wording.money import compared_name
from twinlens.reporting.wording.plan import COUNTED, NAMES, counted, figure_words, input_words
from twinlens.version import __version__


@dataclass(frozen=True, slots=True)
class PlanTable:
    """Rows of text under heads; the first cell of a row names it."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class PlanPage:
    """What one verb shows. `answer`: its sentences, the first of them the answer. `figures`: tops of their trees.

    `remarks`: what stands against the answer or would change it; `assumed`: what nobody said.
    """

    verb: str
    subject: str
    answer: tuple[str, ...]
    figures: tuple[Planned, ...]
    charts: tuple[Chart, ...] = ()
    tables: tuple[PlanTable, ...] = ()
    remarks: tuple[str, ...] = ()
    assumed: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """One figure in words, and those that it was computed from."""

    label: str
    value: str
    band: str
    arithmetic: str
    source: str
    inputs: tuple[tuple[str, str, str], ...]
    """Name, value and source of plain numbers."""
    parts: tuple[Told, ...]
    assumed: tuple[str, ...]
    inverse: tuple[str, ...]


def told(figure: Planned) -> Told:
    """A figure and its whole tree in words."""
    known = figure.value is not None
    unknown = f"not known: {clause_of(figure.reason)}" if figure.reason else "not known"
    plain = [each for each in figure.inputs if isinstance(each, Input)]
    return Told(
        label_of(figure.name),
        _value(figure) if known else unknown,
        _band(figure) if known else "",
        figure_words(figure) if known and figure.formula and figure.inputs else "",
        clean(figure.source, 200),
        tuple((label_of(each.name), input_words(each), clean(each.source, 120)) for each in plain),
        tuple(told(each) for each in figure.inputs if isinstance(each, Planned)),
        tuple(clause_of(each) for each in figure.assumptions),
        tuple(clause_of(each) for each in figure.inverse),
    )


def label_of(name: str) -> str:
    """A figure's or an input's name as a reader knows it."""
    return NAMES.get(name) or MONEY.get(name) or compared_name(name) or clean(name, 60).replace("-", " ")


def plan_page(page: PlanPage) -> str:
    """The page as text; everything foreign is escaped by the template."""
    return environment().get_template("plan.html.j2").render(
        version=__version__,
        page=page,
        figures=[told(each) for each in page.figures],
        assumed=_each_once([clause_of(each) for each in page.assumed]),
    )  # fmt: skip


def write_plan(page: PlanPage, path: str | Path) -> Path:
    """Write the page, making its folder. Raises BadInput (TL207) when the disk refuses it."""
    return write_page(plan_page(page), path)


def _value(figure: Planned) -> str:
    if figure.unit in COUNTED:
        return counted(float(figure.value or 0), figure.unit)
    return amount(float(figure.value or 0), figure.unit)


def _band(figure: Planned) -> str:
    if figure.low is None or figure.high is None:
        return ""
    ends = span(float(figure.low), float(figure.high), figure.unit)
    return ends if figure.level is None else f"{ends} ({figure.level:.0%} band)"


def _each_once(sentences: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(sentences))
