"""Document of a claim: the ruling first, then the arithmetic, what it rests on, and what would be right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.claims.said import Judged
from twinlens.record.finding import Finding
from twinlens.reporting.document.block import DETAIL, Block, Document, Line, Row, Tone, row
from twinlens.reporting.wording.claim import QUANTITIES
from twinlens.reporting.wording.finding import clause_of, sentence_of

TONES: dict[str, Tone] = {
    "holds": "good", "holds under an assumption": "doubt", "incomplete": "doubt", "wrong": "bad",
}  # fmt: skip
_FIRST = 4
"""Cases, assumptions, solutions and notes of a first screen that has room for them."""


def claim_document(judged: Judged) -> Document:
    return Document.of("Claim", f"{judged.ruling[:1].upper()}{judged.ruling[1:]}.", _blocks(judged))


def _blocks(judged: Judged) -> Iterator[Block]:
    ruling = f"{judged.ruling[:1].upper()}{judged.ruling[1:]}."
    compared = " ".join(map(sentence_of, judged.of("claim-compared"))) or _subject(judged)
    yield Line(f"{ruling} {compared}".strip(), TONES[judged.ruling], is_lead=True)
    shown = sorted(judged.of("claim-computed"), key=lambda case: not case.numbers["decides"])
    for place, case in enumerate(shown):
        is_other = place > 0 and _figure(case) == _figure(shown[place - 1])
        yield Row("    or" if is_other else "computed", (clause_of(case),), rank=_rank(place))
    yield from _row("assumed", judged.of("claim-assumed"))
    solutions = judged.of("claim-solved")
    left = [each for each in solutions if "tokens_left" in each.numbers["settings"]]
    yield from _row("right for" if judged.ruling != "holds" else "left", left or solutions, 1)
    yield from _row("note", judged.of("claim-remark"))
    yield from _row("missing", judged.of("claim-missing"), tone="doubt")
    yield from _row("unused", judged.of("claim-unused"), tone="doubt")


def _rank(place: int) -> int:
    """The first stays; later ones leave, the last first."""
    return 0 if place == 0 else place if place < _FIRST else DETAIL


def _figure(case: Finding) -> tuple[str, str]:
    return case.subject, case.numbers["unit"]


def _subject(judged: Judged) -> str:
    subjects = [QUANTITIES.get(each.subject, "") for each in judged.of("claim-missing")]
    return f"{subjects[0]}: it cannot be computed yet." if subjects and subjects[0] else "Nothing can be computed yet."


def _row(mark: str, findings: Sequence[Finding], more: int = 0, tone: Tone = "") -> Iterator[Row]:
    yield row(mark, [clause_of(each) for each in findings], tone, first=_FIRST + more)
