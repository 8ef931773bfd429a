"""A claim on one screen: the ruling first, then the arithmetic, what it rests on, and what would be right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType

from twinlens.claims.answer import Judged
from twinlens.record.finding import Finding
from twinlens.reporting.text.fitted import Fitted, shortest
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.claim import QUANTITIES
from twinlens.reporting.wording.finding import clause_of, sentence_of

_STYLES = {"holds": "green", "holds under an assumption": "yellow", "incomplete": "yellow", "wrong": "red"}
_CASES = (4, 3, 2, 1)


def claim_screen(judged: Judged) -> RenderableType:
    """At most 24 lines at 80 columns."""
    return Fitted(lambda width: shortest(_choices(judged), width))


def _choices(judged: Judged) -> Iterator[RenderableType]:
    for most in _CASES:
        yield Stack(*_lines(judged, most))


def _lines(judged: Judged, most: int) -> Iterator[RenderableType]:
    ruling = f"{judged.ruling[:1].upper()}{judged.ruling[1:]}."
    compared = " ".join(map(sentence_of, judged.of("claim-compared"))) or _subject(judged)
    yield hanging("", f"{ruling} {compared}".strip(), f"bold {_STYLES[judged.ruling]}")
    cases = judged.of("claim-computed")
    shown = sorted(cases, key=lambda case: not case.numbers["decides"])[:most]
    for place, case in enumerate(shown):
        is_other = place > 0 and (case.subject, case.numbers["unit"]) == _figure(shown[place - 1])
        yield hanging("    or    " if is_other else "computed  ", clause_of(case), "")
    yield from _row("assumed   ", judged.of("claim-assumed"), most)
    solutions = judged.of("claim-solved")
    left = [each for each in solutions if "tokens_left" in each.numbers["settings"]]
    yield from _row("right for " if judged.ruling != "holds" else "left      ", left or solutions[: most + 1], most + 1)
    yield from _row("note      ", judged.of("claim-remark"), most)
    yield from _row("missing   ", judged.of("claim-missing"), most, "yellow")
    yield from _row("unused    ", judged.of("claim-unused"), most, "yellow")


def _figure(case: Finding) -> tuple[str, str]:
    return case.subject, case.numbers["unit"]


def _subject(judged: Judged) -> str:
    subjects = [QUANTITIES.get(each.subject, "") for each in judged.of("claim-missing")]
    return f"{subjects[0]}: it cannot be computed yet." if subjects and subjects[0] else "Nothing can be computed yet."


def _row(mark: str, findings: Sequence[Finding], most: int, style: str = "") -> Iterator[RenderableType]:
    if findings:
        yield hanging(mark, "; ".join(map(clause_of, findings[:most])), style)
