"""The verb that holds two quotes against each other at the same work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from twinlens.api.documented import Answered
from twinlens.api.plan.reading.amount import count_of
from twinlens.api.question import Kind, Question, Verb, argument, asks, option
from twinlens.planning.quotes import Quotes, quotes_answer
from twinlens.record.finding import Finding
from twinlens.spec.money import quote_of, read_quote

if TYPE_CHECKING:
    from twinlens.api.words import PlanQuotesWords
    from twinlens.reporting.document.block import Document


@dataclass(frozen=True, slots=True, repr=False)
class QuotesResult(Answered):
    """Two quotes per million output tokens, and what is not comparable."""

    answer: Quotes
    notes: tuple[Finding, ...] = ()

    def document(self) -> Document:
        from twinlens.reporting.plan.quotes import quotes_document

        return quotes_document(self.answer)


class QuotesAsked(Question):
    """Two quotes, and the work at which they are held."""

    one: Annotated[Path, argument("A quote: `twinlens explain quotes` has one.", "A.toml")]
    other: Annotated[Path, argument("The other.", "B.toml")]
    input: Annotated[int, option("Of a request.", Kind("TOKENS", count_of))] = 1024
    output: Annotated[int, option("Of a request.", Kind("TOKENS", count_of), head="Load")] = 256


VERB = Verb("plan quotes", (QuotesAsked,), "a.toml b.toml --input 1024 --output 256")


@asks(VERB)
def quotes(
    one: str | Path | None = None, other: str | Path | None = None, **words: Unpack[PlanQuotesWords]
) -> QuotesResult:
    """Two quotes brought to money per million output tokens at the same work, and what is not comparable.

    Raises BadInput (TL231).
    """
    asked = QuotesAsked.read(VERB.name, {"one": one, "other": other, **words})
    first, second = (read_quote(each.expanduser()) for each in (asked.one, asked.other))
    return QuotesResult(quotes_answer(first, second, asked.input, asked.output))


def quotes_of_texts(one: str, other: str, **words: Unpack[PlanQuotesWords]) -> QuotesResult:
    """The same of two texts in place of files, for who has no file to name. Raises BadInput (TL231)."""
    asked = QuotesAsked.read(VERB.name, {"one": "A.toml", "other": "B.toml", **words})
    first, second = quote_of(one, "quote A"), quote_of(other, "quote B")
    return QuotesResult(quotes_answer(first, second, asked.input, asked.output))
