"""Claims of a whole page: its sentences that hold a figure, each judged as one claim."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twinlens.api.documented import Documented
from twinlens.api.judging.claim import ClaimResult, claim
from twinlens.errors import BadInput
from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.reporting.document.block import Document

_END = re.compile(r"(?<=[.!?;])\s+(?=[^\W\d_a-z]|[\"'“(\d])|\s*[\n\r•]+\s*")
"""Where a sentence ends: after a stop before a capital, a figure or a quotation, and at the end of a line."""
_MOST_LETTERS = 1000
_CODE = "TL230"


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a page with a figure in it. `result`: None where no claim could be read, and `why` says so."""

    text: str
    result: ClaimResult | None
    why: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class ClaimsResult(Documented):
    """The sentences of a page that hold a figure, in their order; `others`: how many hold none."""

    sentences: tuple[Sentence, ...]
    others: int

    @property
    def rulings(self) -> dict[str, int]:
        """How many claims have each ruling."""
        return dict(Counter(each.result.ruling for each in self.sentences if each.result is not None))

    def document(self) -> Document:
        from twinlens.reporting.judging.claims_of_page import claims_document

        told = [(each.text, each.result.judged if each.result else None, each.why) for each in self.sentences]
        return claims_document(told, self.others)

    def to_json(self) -> dict[str, Any]:
        """As plain data: each sentence with its ruling, or why it has none."""
        rows = [each.result.to_json() if each.result else {"claim": each.text, "verdict": None, "reason": each.why}
                for each in self.sentences]  # fmt: skip
        return {"schema": 1, "twinlens": __version__, "rulings": self.rulings, "others": self.others, "claims": rows}


def claims_of_page(text: str) -> ClaimsResult:
    """Each sentence of a page that holds a figure, judged by itself: no sentence lends its words to another.

    Raises BadInput (TL230) for a page without a figure.
    """
    sentences = list(sentences_of(text))
    figured = [each for each in sentences if any(letter.isdecimal() for letter in each)]
    if not figured:
        raise BadInput("there is no figure on this page; a claim has one with its unit, such as 45 tok/s or 40 GB",
                       code=_CODE)  # fmt: skip
    return ClaimsResult(tuple(map(_judged, figured)), len(sentences) - len(figured))


def sentences_of(text: str) -> Iterator[str]:
    """Sentences in their order, white space as single spaces."""
    for part in _END.split(text):
        words = " ".join(part.split())
        if words:
            yield words


def _judged(sentence: str) -> Sentence:
    if len(sentence) > _MOST_LETTERS:
        return Sentence(sentence, None, f"it has {len(sentence):,} letters, and a claim has at most {_MOST_LETTERS:,}")
    try:
        return Sentence(sentence, claim(sentence))
    except BadInput as refused:
        return Sentence(sentence, None, str(refused))
