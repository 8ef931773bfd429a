"""Checks of a pack: its checksums file by file, then the signature on them; findings, no sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.pack.archive import Archive, Damaged
from twinlens.pack.signature import check_signature
from twinlens.pack.sums import SIGNATURE, SUMS, UNREADABLE, read_sums, sha256_of_pieces
from twinlens.record.finding import Finding
from twinlens.record.foreign_text import in_one_line
from twinlens.system.document import json_of

ABOUT = "evidence.json"
_MOST_NAMES = 20
_ORDER = ("disqualifies", "warns", "notes")


@dataclass(frozen=True, slots=True)
class Checked:
    """What a pack was found to be. `about`: its evidence.json, which anybody may have written; {} where it is changed.

    `findings`: those that disqualify first (changed, missing, added, a wrong signature), then the rest.
    """

    findings: tuple[Finding, ...]
    about: Mapping[str, Any]

    @property
    def is_good(self) -> bool:
        """Whether nothing was changed, and the signature, where there is one or one was asked for, is right."""
        return not any(each.severity == "disqualifies" for each in self.findings)

    @property
    def is_signed(self) -> bool:
        """Whether a good signature stands on it."""
        return any(each.code in ("pack-signed", "pack-signer-unknown") for each in self.findings)

    def with_findings(self, more: Iterable[Finding]) -> Checked:
        """The same with more findings, worst first."""
        findings = sorted((*self.findings, *more), key=lambda each: _ORDER.index(each.severity))
        return Checked(tuple(findings), self.about)

    def __json__(self) -> dict[str, Any]:
        return {"good": self.is_good, "findings": self.findings, "about": self.about}


def check_pack(path: Path, signers: Path | None = None) -> Checked:
    """Read a pack without unpacking it. `signers`: ssh's allowed_signers, by which a key is somebody's.

    Raises BadInput (TL240) for what is no pack, and (TL241) where a signature cannot be checked.
    """
    with Archive(path) as archive:
        if SUMS not in archive.names:
            raise BadInput(f"{path} is no evidence pack: it has no {SUMS}", code=UNREADABLE)
        text = archive.text(SUMS)
        wanted = read_sums(text)
        found = {name: _hash(archive, name) for name in archive.names if name not in (SUMS, SIGNATURE)}
        signature = archive.text(SIGNATURE) if SIGNATURE in archive.names else None
        whole = found.get(ABOUT) is not None and found.get(ABOUT) == wanted.get(ABOUT)
        about = _about(archive) if whole else {}
    return Checked((), about).with_findings((*_compared(wanted, found), *_signature(text, signature, signers)))


def _hash(archive: Archive, name: str) -> str | None:
    """The SHA-256 of a file; None where its bytes cannot be read, so they are not those that were packed."""
    try:
        return sha256_of_pieces(archive.pieces(name))
    except Damaged:
        return None


def _compared(wanted: Mapping[str, str], found: Mapping[str, str | None]) -> Iterator[Finding]:
    changed = [name for name in wanted if name in found and found[name] != wanted[name]]
    missing = [name for name in wanted if name not in found]
    added = [name for name in found if name not in wanted]
    if changed:
        yield Finding("pack-changed", "disqualifies", "", named(changed))
    if missing:
        yield Finding("pack-missing", "disqualifies", "", named(missing))
    if added:
        yield Finding("pack-added", "disqualifies", "", named(added))
    if not (changed or missing or added):
        yield Finding("pack-whole", "notes", "", {"files": len(wanted)})


def named(names: list[str]) -> dict[str, Any]:
    """How many files, and the first of their names."""
    return {"count": len(names), "names": sorted(in_one_line(name, 120) for name in names)[:_MOST_NAMES]}


def _signature(sums: str, signature: str | None, signers: Path | None) -> Iterator[Finding]:
    if signature is None:
        yield Finding("pack-unsigned", "disqualifies" if signers else "warns")
        return
    signed = check_signature(sums.encode(), signature.encode(), signers)
    numbers = {"key": in_one_line(signed.key, 120)}
    if not signed.is_good:
        yield Finding("pack-signature-wrong", "disqualifies")
    elif signed.signer is not None:
        yield Finding("pack-signed", "notes", in_one_line(signed.signer, 120), numbers)
    else:
        yield Finding("pack-signer-unknown", "disqualifies" if signers else "warns", "", numbers)


def _about(archive: Archive) -> Mapping[str, Any]:
    try:
        data = json_of(archive.text(ABOUT))
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
