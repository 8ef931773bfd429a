"""Document of the claims of a page: each figure's sentence with its ruling beside it, then every claim in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from twinlens.claims.said import Judged
from twinlens.reporting.display import clean, join_names
from twinlens.reporting.document.block import Block, Cell, Document, Line, Section, Table
from twinlens.reporting.judging.claim import TONES, claim_document
from twinlens.reporting.wording.finding import clause_of, sentence_of

Told = tuple[str, Judged | None, str]
"""A sentence, its ruling, and why it has none."""
_HEADS = ("sentence", "ruling", "computed", "right for")
_MOST_LETTERS = 300
_FIRST = 12
"""Rows of a first screen, the worst rulings first."""


def claims_document(told: Sequence[Told], others: int) -> Document:
    return Document.of("Claims of a page", _head(told, others), _blocks(told, others))


def _head(told: Sequence[Told], others: int) -> str:
    counts: Counter[str] = Counter(judged.ruling for _, judged, _ in told if judged is not None)
    rulings = join_names([f"{count} {_ruling(name, count)}" for name in TONES if (count := counts[name])])
    claims = counts.total()
    head = f"{claims} claim{'s' if claims != 1 else ''}" + (f": {rulings}" if rulings else "")
    rest = [f"{len(told) - claims} with a figure that is no claim"] if len(told) > claims else []
    rest += [f"{others} without a figure"] if others else []
    return f"{head}.{f' Sentences besides: {join_names(rest)}.' if rest else ''}"


def _ruling(name: str, count: int) -> str:
    """ "2 hold", "1 holds", "3 incomplete"."""
    return name.replace("holds", "hold") if count > 1 else name


def _blocks(told: Sequence[Told], others: int) -> Iterator[Block]:
    yield Line(_head(told, others), is_lead=True)
    rows = tuple(_row(text, judged) for text, judged, _ in told if judged is not None)
    worst = tuple(row for ruling in reversed(TONES) for row in rows if row[1].text == ruling)[:_FIRST]
    yield Table("Each figure beside the sentence that says it.", _HEADS, rows, ("left", "left", "left", "left"),
                short=worst)  # fmt: skip
    for text, judged, _ in told:
        if judged is not None:
            yield Section(clean(text, 120), claim_document(judged).blocks)
    unread = tuple(Line(f"{clean(text, _MOST_LETTERS)}: {why}", "dim") for text, judged, why in told if judged is None)
    yield Section(f"{len(unread)} sentence{'s' if len(unread) != 1 else ''} with a figure that is no claim", unread)


def _row(text: str, judged: Judged) -> tuple[Cell, ...]:
    compared = " ".join(map(sentence_of, judged.of("claim-compared")))
    missing = "; ".join(clause_of(each) for each in judged.of("claim-missing"))
    inverse = "; ".join(clause_of(each) for each in judged.of("claim-solved")[:2])
    return (
        Cell(clean(text, _MOST_LETTERS)),
        Cell(judged.ruling, TONES[judged.ruling]),
        Cell(compared or missing),
        Cell(inverse if judged.ruling != "holds" else ""),
    )
