"""The best time between two saves, on one screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType

from twinlens.planning.checkpoint import SavePlan
from twinlens.record.finding import Finding
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.finding import clause_of, sentence_of
from twinlens.reporting.wording.plan import figure_words
from twinlens.reporting.wording.plan_checkpoint import head_words, input_line, kept_words


def checkpoint_screen(answer: SavePlan, notes: Sequence[Finding] = (), *, why: bool = False) -> RenderableType:
    """A screen of 80 columns. `why`: every figure with its formula."""
    return Stack(*_lines(answer, notes, why))


def _lines(answer: SavePlan, notes: Sequence[Finding], why: bool) -> Iterator[RenderableType]:
    yield hanging("", head_words(answer), "bold")
    yield hanging("goodput   ", kept_words(answer), "")
    for place, each in enumerate(answer.kept.inputs[1:]):
        yield hanging("from      " if place == 0 else "          ", input_line(each), "")
    for note in answer.notes():
        yield hanging("formula   ", sentence_of(note), "")
    for place, figure in enumerate(answer.figures() if why else ()):
        name = figure.name.replace("-", " ")
        yield hanging("computed  " if place == 0 else "          ", f"{name}: {figure_words(figure)}", "")
    if notes:
        yield hanging("assumed   ", "; ".join(map(clause_of, notes)), "dim")
