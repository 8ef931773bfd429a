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


SENTENCES: dict[str, Any] = {
    "pack-changed": _changed,
    "pack-missing": _missing,
    "pack-added": _added,
    "pack-whole": _whole,
    "pack-signed": _signed,
    "pack-signer-unknown": _signer_unknown,
    "pack-unsigned": _unsigned,
    "pack-signature-wrong": _signature_wrong,
}
