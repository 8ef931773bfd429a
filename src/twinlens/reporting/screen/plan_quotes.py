"""Two quotes on one screen: money per million output tokens with its arithmetic, and what is not equivalent."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group as Stack
from rich.console import RenderableType

from twinlens.planning.quotes.answer import Quotes
from twinlens.reporting.display import clean
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.plan import figure_words
from twinlens.reporting.wording.plan_quotes import head_words


def quotes_screen(answer: Quotes) -> RenderableType:
    """A screen of 80 columns."""
    return Stack(*_lines(answer))


def _lines(answer: Quotes) -> Iterator[RenderableType]:
    yield hanging("", head_words(answer), "bold")
    work = f"Requests of {answer.input_tokens:,} tokens in and {answer.output_tokens:,} out; per million output tokens:"
    yield hanging("", work, "")
    for quote, cost in zip(answer.quotes, answer.costs, strict=True):
        said = figure_words(cost) if cost.reason is None else clause_of(cost.reason)
        yield hanging("  ", f"{clean(quote.name, 40)} ({quote.currency}): {said}", "")
    for place, each in enumerate(answer.unlike):
        yield hanging("not like  " if place == 0 else "          ", clause_of(each), "yellow")
    notes = [clause_of(note) for cost in answer.costs for note in cost.all_assumptions()]
    if notes:
        yield hanging("assumed   ", "; ".join(notes), "dim")
