"""Document of a pack that was checked: the verdict first, then who measured, when, and on what."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.pack.check import Checked
from twinlens.reporting.document.block import Block, Document, Line, Tone, row
from twinlens.reporting.text.evidence_readme import about_lines
from twinlens.reporting.wording.finding import sentence_of

_MARKS: dict[str, tuple[str, Tone]] = {"disqualifies": ("✗", "bad"), "warns": ("!", "doubt"), "notes": ("·", "good")}


def checked_document(checked: Checked) -> Document:
    """What was found, worst first; what the pack says of itself where that part is as it was packed."""
    return Document.of("Evidence pack", _verdict(checked), _blocks(checked))


def _blocks(checked: Checked) -> Iterator[Block]:
    tone: Tone = "bad" if not checked.is_good else "good" if checked.is_signed else "doubt"
    yield Line(_verdict(checked), tone, is_lead=True)
    for finding in checked.findings:
        mark, tone = _MARKS[finding.severity]
        yield row(mark, [sentence_of(finding)], tone)
    if checked.about:
        yield row("·", about_lines(checked.about), apart=True)


def _verdict(checked: Checked) -> str:
    if not checked.is_good:
        return "Do not rely on this pack."
    return "The pack is as it was signed." if checked.is_signed else "The pack fits its own checksums."
