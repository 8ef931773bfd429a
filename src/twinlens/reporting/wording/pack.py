"""Sentences on evidence packs: whether one is as it was made, and whose signature stands on it."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean, clean_end
from twinlens.reporting.wording.number import numbers

_MOST = 4


def _files_and_names(finding: Finding) -> tuple[str, str]:
    """How many files, and the first of them by name."""
    count, names = numbers(finding, "count", "names")
    shown = ", ".join(clean_end(name, 70) for name in names[:_MOST])
    more = f" and {count - _MOST} more" if count > _MOST else ""
    return ("1 file" if count == 1 else f"{count} files"), f"{shown}{more}"


def figures_differ(finding: Finding) -> str:
    follow, figures, names = numbers(finding, "follow", "figures", "names")
    made_by = finding.numbers.get("made_by")
    by = f" The pack was made by twinlens {clean(made_by, 40)}: check it with that version, too." if made_by else ""
    shown = "; ".join(clean_end(name, 140) for name in names[:_MOST])
    return f"{figures - follow} of {figures} figures do not follow from the rows: {shown}.{by}"


def files(finding: Finding) -> str:
    return _files_and_names(finding)[0]


def names(finding: Finding) -> str:
    return _files_and_names(finding)[1]
