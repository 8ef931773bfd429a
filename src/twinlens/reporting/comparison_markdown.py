"""Comparisons as GitHub-flavoured Markdown, for a pull request: verdict, findings, and the table of effects."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.comparison.verdict import Comparison
from twinlens.record.finding import Finding
from twinlens.reporting.comparison import HEADS, rows_of, side_words, subject_words, verdict_words
from twinlens.reporting.display import escaped
from twinlens.reporting.wording.finding import sentence_of


def comparison_markdown(comparisons: Sequence[Comparison], broken: Sequence[Finding] = ()) -> str:
    """One block a comparison, the limits that were not kept first. Foreign words are escaped: they are only text."""
    failed = [f"- ❌ {escaped(sentence_of(each))}" for each in broken]
    return "\n\n".join(filter(None, ["\n".join(failed), *map(_block, comparisons)])) + "\n"


def _block(comparison: Comparison) -> str:
    lines = [
        f"**{escaped(verdict_words(comparison))}**",
        "",
        escaped(subject_words(comparison)),
        "",
        f"- A: {escaped(side_words(comparison.a))}",
        f"- B: {escaped(side_words(comparison.b))}",
        *(f"- {escaped(sentence_of(each))}" for each in comparison.findings),
    ]
    rows = rows_of(comparison)
    if rows:
        lines += ["", f"| | {' | '.join(HEADS)} |", f"|---|{'---:|' * len(HEADS)}"]
        lines += [f"| {escaped(row.label)} | {' | '.join(map(escaped, row.cells))} |" for row in rows]
    return "\n".join(lines)
