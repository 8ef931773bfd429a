"""The choice of a model on one screen: memory, speed, cost and score of each, the Pareto set marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.planning.figure import Figure
from twinlens.planning.models.answer import Choice
from twinlens.planning.models.candidate import Candidate
from twinlens.record.finding import Finding
from twinlens.reporting.text.fitted import FittedTable
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.plan import figure_words
from twinlens.reporting.wording.plan_model import head_words, remark_words
from twinlens.units import digits


def model_screen(choice: Choice, notes: Sequence[Finding] = (), *, why: bool = False) -> RenderableType:
    """A screen of 80 columns. `why`: every figure with its formula."""
    return Stack(*_lines(choice, notes, why))


def _lines(choice: Choice, notes: Sequence[Finding], why: bool) -> Iterator[RenderableType]:
    yield hanging("", head_words(choice), "bold green" if choice.best else "bold red")
    heads = ("", "", "GB\nin all", "ms a\ntoken", "tokens/s\nof the box", "$ per\nmillion", "score", "")
    sides = ("left", "left", *("right",) * 5, "left")
    rows = tuple(_row(each, choice) for each in choice.candidates)
    yield FittedTable(heads, sides, rows, remarks=True).table()
    if why:
        for each in choice.candidates:
            for figure in (each.memory.needed, each.tpot, each.throughput, each.cost):
                yield hanging("  ", f"{each.name}: {figure.name}: {figure_words(figure)}", "dim")
    plan = choice.candidates[0].plan
    users = "1 user" if plan.users == 1 else f"{plan.users:,} users"
    load = f"{users} of {plan.context:,} tokens, weights in {plan.weight_format}"
    said = [load, "scores are yours and predict nothing", *map(clause_of, notes)]
    yield hanging("assumed  ", "; ".join(dict.fromkeys(said)), "dim")


def _row(one: Candidate, choice: Choice) -> tuple[Text, ...]:
    mark = "✗" if one.against else "→" if one.name in choice.best else ""
    style = {"→": "bold", "✗": "dim"}.get(mark, "")
    size, speed = one.bytes, one.tpot.value
    score = "" if one.told.quality is None else f"{one.told.quality:g}"
    cells = (
        one.name, "?" if size is None else digits(size / 1e9), "?" if speed is None else digits(1000 * float(speed)),
        _number(one.throughput), _number(one.cost), score, remark_words(one, choice),
    )  # fmt: skip
    return (Text(mark), *(Text(each, style=style) for each in cells))


def _number(figure: Figure) -> str:
    return "?" if figure.value is None else digits(float(figure.value))
