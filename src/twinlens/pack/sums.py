"""Checksums of a pack, in the form that `sha256sum -c SHA256SUMS` reads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from twinlens.errors import BadInput

SUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"
UNREADABLE = "TL240"
_LINE = re.compile(r"(?P<hash>[0-9a-f]{64})  (?P<name>[^\n]+)")
_PIECE = 1 << 20


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex; read piece by piece."""
    with path.open("rb") as file:
        return sha256_of_pieces(iter(lambda: file.read(_PIECE), b""))


def sha256_of_pieces(pieces: Iterable[bytes]) -> str:
    """The SHA-256 of bytes in pieces, in hex."""
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def sums_text(hashes: Mapping[str, str]) -> str:
    """A line for each file, sorted by name."""
    return "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))


def read_sums(text: str) -> dict[str, str]:
    """Name to SHA-256. Raises BadInput (TL240) for a line of another form, and for a name that stands twice."""
    hashes: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        found = _LINE.fullmatch(line)
        if found is None or found["name"] in hashes:
            raise BadInput(f"line {number} of {SUMS} is no checksum of a file of its own", code=UNREADABLE)
        hashes[found["name"]] = found["hash"]
    return hashes
