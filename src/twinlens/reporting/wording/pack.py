"""Sentences on evidence packs: whether one is as it was made, and whose signature stands on it."""

from __future__ import annotations

from typing import Any

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean, clean_end
from twinlens.reporting.wording.number import number, numbers

_MOST = 4


def _names(finding: Finding) -> tuple[str, str]:
    """How many files, and the first of them by name."""
    count, names = numbers(finding, "count", "names")
    shown = ", ".join(clean_end(name, 70) for name in names[:_MOST])
    more = f" and {count - _MOST} more" if count > _MOST else ""
    return ("1 file" if count == 1 else f"{count} files"), f"{shown}{more}"


def _changed(finding: Finding) -> str:
    count, names = _names(finding)
    return f"{count} changed since the pack was made: {names}."


def _missing(finding: Finding) -> str:
    count, names = _names(finding)
    return f"{count} missing: {names}."


def _added(finding: Finding) -> str:
    count, names = _names(finding)
    return f"{count} added since the pack was made: {names}."


def _whole(finding: Finding) -> str:
    files = number(finding, "files")
    return f"Whole: all {files} files are as they were packed."


def _signed(finding: Finding) -> str:
    return f"Signed by {clean(finding.subject, 80)}, with the {_key(finding)} key."


def _key(finding: Finding) -> str:
    return clean(str(number(finding, "key")), 120)


def _signer_unknown(finding: Finding) -> str:
    if finding.severity == "disqualifies":
        return f"Signed with the {_key(finding)} key, which the file of allowed signers does not name."
    return f"Signed with the {_key(finding)} key; whose it is, a file of allowed signers would say (--signers)."


def _unsigned(finding: Finding) -> str:
    return "Not signed: the checksums show damage, and anybody could have made them anew."


def _signature_wrong(finding: Finding) -> str:
    return "The signature is not one of these checksums."


def _figures_follow(finding: Finding) -> str:
    follow, figures = numbers(finding, "follow", "figures")
    return f"{follow} of {figures} figures follow from the rows."


def _figures_differ(finding: Finding) -> str:
    follow, figures, names = numbers(finding, "follow", "figures", "names")
    made_by = finding.numbers.get("made_by")
    by = f" The pack was made by twinlens {clean(made_by, 40)}: check it with that version, too." if made_by else ""
    shown = "; ".join(clean_end(name, 140) for name in names[:_MOST])
    return f"{figures - follow} of {figures} figures do not follow from the rows: {shown}.{by}"


def _texts_differ(finding: Finding) -> str:
    count, names = _names(finding)
    return f"{count} not those that the rows give: {names}."


def _drawings_differ(finding: Finding) -> str:
    _, names = _names(finding)
    return (
        f"The words of {names} are those of the rows; its drawings differ, as another renderer's do: draw them again."
    )


def _texts_unchecked(finding: Finding) -> str:
    made_by = clean(str(number(finding, "made_by")), 40)
    return f"Tables and report were made by twinlens {made_by} and are not compared with the rows; the figures are."


def _unreadable(finding: Finding) -> str:
    return f"Its figures cannot be computed again: {clean(str(number(finding, 'why')), 400)}."


def _implausible(finding: Finding) -> str:
    each, what = finding.numbers, number(finding, "what")
    known = {
        "tokens-above-limit": "{count} of {rows} answers have more tokens than were asked for",
        "sent-before-due": "{count} of {rows} requests were sent before they were due",
        "ended-before-sent": "{count} of {rows} answers ended before their requests were sent",
        "tokens-before-sent": "{count} of {rows} answers began before their requests were sent",
        "longer-than-the-run": "its rows last {rows_s:.1f} s, and the run {run_s:.0f} s",
        "above-ceiling": "{metric} is {share:.2f} of what its machine was measured to sustain",
    }
    return f"{clean_end(finding.subject, 70)} cannot be: {known[str(what)].format(**each)}."


SENTENCES: dict[str, Any] = {
    "pack-changed": _changed,
    "pack-missing": _missing,
    "pack-added": _added,
    "pack-whole": _whole,
    "pack-signed": _signed,
    "pack-signer-unknown": _signer_unknown,
    "pack-unsigned": _unsigned,
    "pack-signature-wrong": _signature_wrong,
    "pack-figures-follow": _figures_follow,
    "pack-figures-differ": _figures_differ,
    "pack-texts-differ": _texts_differ,
    "pack-drawings-differ": _drawings_differ,
    "pack-texts-unchecked": _texts_unchecked,
    "pack-unreadable": _unreadable,
    "pack-implausible": _implausible,
}
