"""Findings in words: one plain sentence a code. The only place that makes English of a finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinlens.record.finding import Finding
from twinlens.report.cell import clean
from twinlens.stats.metrics.definition import METRICS

Sentence = Callable[[Finding], str]


def finding_text(finding: Finding) -> str:
    """What was found, as one sentence safe to show. A code of a newer version, or numbers that its sentence does not

    know, give a general sentence: a summary can always be read.
    """
    try:
        return clean(SENTENCES[finding.code](finding), 400)
    except (KeyError, TypeError, ValueError, AttributeError):
        about = f" ({_subject(finding)})" if finding.subject else ""
        weight = {"disqualifies": "so the run is not ranked", "warns": "read it with care"}.get(finding.severity)
        return clean(f"A check found {finding.code!r}{about}{f': {weight}' if weight else ''}.", 400)


def short(code: str) -> str:
    """A code as a label of two or three words: "SLO missed"."""
    words = clean(code, 40).replace("-", " ")
    return f"SLO{words[3:]}" if words.startswith("slo ") else words


def _subject(finding: Finding) -> str:
    """What a finding is about: the label of a metric, else as it stands."""
    return METRICS[finding.subject].label if finding.subject in METRICS else finding.subject


def _number(finding: Finding, name: str) -> Any:
    found = finding.numbers[name]
    if found is None:
        raise ValueError(f"{name} is not known")
    return found


def _precision_differs(finding: Finding) -> str:
    declared, observed, evidence = (_number(finding, name) for name in ("declared", "observed", "evidence"))
    return f"{finding.subject} was declared as {declared} and ran as {observed} ({evidence})."


def _guard_failed(finding: Finding) -> str:
    return f"The guard {finding.subject!r} failed: {str(_number(finding, 'reason')).rstrip('.')}."


SENTENCES: dict[str, Sentence] = {
    "precision-differs": _precision_differs,
    "guard-failed": _guard_failed,
}
"""A new finding is a line here, and a page `pages/findings/CODE.md`."""
