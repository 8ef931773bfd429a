"""Document of `plan quotes`: two offers per million output tokens, and where they are not equivalent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twinlens.planning.quotes import Quotes
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Arithmetic, Block, Document, Line, row
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.planned.plan import figure_words
from twinlens.units import digits

if TYPE_CHECKING:
    from twinlens.planning.quotes import Quotes


def quotes_document(answer: Quotes) -> Document:
    return Document.of("Plan: quotes", " and ".join(clean(each.name, 40) for each in answer.quotes), _blocks(answer))


def _blocks(answer: Quotes) -> Iterator[Block]:
    yield Line(head_words(answer), is_lead=True)
    yield Line(
        f"Requests of {answer.input_tokens:,} tokens in and {answer.output_tokens:,} out; per million output tokens:"
    )
    for quote, cost in zip(answer.quotes, answer.costs, strict=True):
        words = figure_words(cost) if cost.reason is None else clause_of(cost.reason)
        yield Line(f"{clean(quote.name, 40)} ({quote.currency}): {words}")
    yield Arithmetic(tuple(answer.costs))
    yield row("not like", [clause_of(each) for each in answer.unlike], "doubt", apart=True)
    yield row("assumed", [clause_of(note) for cost in answer.costs for note in cost.all_assumptions()], "dim")


# Sentences on two quotes: what each says at the same work, and the axes on which they are not equivalent.


def head_words(answer: Quotes) -> str:
    """The answer in one sentence."""
    one, other = (clean(each.name, 40) for each in answer.quotes)
    if answer.ratio.value is None:
        return f"{one} and {other} cannot be held against each other in money."
    many = f"{len(answer.unlike)} axes are" if len(answer.unlike) != 1 else "1 axis is"
    like = f"{many} not equivalent" if answer.unlike else "they are equivalent on every axis"
    return f"{other} costs {digits(float(answer.ratio.value))} times what {one} does per output token; {like}."
