"""A pack that was checked, on one screen: the verdict first, then who measured, when, and on what."""

from __future__ import annotations

from rich.console import Group as Stack
from rich.console import RenderableType

from twinlens.pack.check import Checked
from twinlens.reporting.text.evidence_readme import about_lines
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.finding import sentence_of

_MARKS = {"disqualifies": ("✗ ", "red"), "warns": ("! ", "yellow"), "notes": ("  ", "green")}


def checked_screen(checked: Checked) -> RenderableType:
    """What was found, worst first; what the pack says of itself where that part is as it was packed."""
    style = "red" if not checked.is_good else "green" if checked.is_signed else "yellow"
    lines = [hanging("", _verdict(checked), f"bold {style}")]
    for finding in checked.findings:
        mark, style = _MARKS[finding.severity]
        lines.append(hanging(mark, sentence_of(finding), style))
    if checked.about:
        lines += [hanging("  ", line, "") for line in about_lines(checked.about)]
    return Stack(*lines)


def _verdict(checked: Checked) -> str:
    if not checked.is_good:
        return "Do not rely on this pack."
    return "The pack is as it was signed." if checked.is_signed else "The pack fits its own checksums."
