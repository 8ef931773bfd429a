"""Run and study folders as a pack takes them: files that belong to a run, and checksums of all that lie there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.pack.archive import safe_part
from twinlens.pack.sums import UNREADABLE, sha256_of, sha256_of_pieces
from twinlens.record.checksum import MARKS, marks_text
from twinlens.system.document import json_of

OF_RUN = (
    "run.json", "steps.arrows", "requests.arrows", "exchanges.arrows", "telemetry.arrows",
    "server.arrows", "schedule.arrow", "instrument.json", "falsifier.json",
)  # fmt: skip
OF_STUDY = ("study.json", "spec.toml", "paired.json", "search.json")
OF_BURNIN = ("burnin.json", "windows.jsonl", "journal.jsonl", "verdict.json")
OF_TURN = ("turn.json", "counters.jsonl", "products.jsonl", "failed.jsonl")
"""Files that a pack takes; logs, weights and whatever else lies there only have their checksum in it."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One file of a run or study folder: its checksum as it lies there, and whether the pack has it.

    `covered`: how many private words the copy in the pack has under asterisks.
    """

    name: str
    bytes: int
    sha256: str
    is_packed: bool
    covered: int = 0

    def __json__(self) -> dict[str, Any]:
        return {"file": self.name, "bytes": self.bytes, "sha256": self.sha256, "packed": self.is_packed} | (
            {"covered": self.covered} if self.covered else {}
        )


def folder_hash(files: tuple[Taken, ...]) -> str:
    """One SHA-256 over the names and checksums of all files of a folder, as they lie there."""
    return sha256_of_pieces(
        f"{each.sha256}  {each.name}\n".encode() for each in sorted(files, key=lambda one: one.name)
    )


def take(folder: Path, wanted: tuple[str, ...], cover: Cover) -> tuple[dict[str, bytes], tuple[Taken, ...]]:
    """Copies of the wanted files of a folder by name, private words covered; and every file that lies there.

    Links are not followed: what they lead to is no part of a run. Where words are covered in rows, their
    checksums are those of the copy. Raises OSError and BadInput.
    """
    copies: dict[str, bytes] = {}
    files: list[Taken] = []
    for path in sorted(_files(folder)):
        name, size = path.relative_to(folder).as_posix(), path.stat().st_size
        covered = 0
        if name in wanted:
            copies[name], covered = _copy(path, cover)
        is_packed = name in wanted or name.removesuffix(MARKS) in wanted
        files.append(Taken(name if is_packed else _told(name, cover), size, sha256_of(path), is_packed, covered))
    marks = [each.name for each in files if each.is_packed and each.name not in copies]
    for name in marks:
        rows = name.removesuffix(MARKS)
        copies[name] = marks_text(folder / rows, copies[rows]) if rows in copies else b""
    return copies, tuple(files)


def _copy(path: Path, cover: Cover) -> tuple[bytes, int]:
    """The bytes with private words covered, and how many. Raises BadInput where that would spoil a JSON file."""
    original = path.read_bytes()
    data, covered = cover.covered(original)
    if covered and path.suffix == ".json" and _is_json(original) and not _is_json(data):
        raise BadInput(f"{path} has a key or password where it is no text; take it out first", code=UNREADABLE)
    return data, covered


def _is_json(data: bytes) -> bool:
    try:
        json_of(data.decode("utf-8"))
    except ValueError:
        return False
    return True


def _told(name: str, cover: Cover) -> str:
    return "/".join(safe_part(part) for part in cover.text(name).split("/"))


def _files(folder: Path) -> Iterator[Path]:
    """Files below a folder, links and the folders of other runs left out."""
    for place, folders, names in os.walk(folder, followlinks=False):
        here = Path(place)
        folders[:] = [each for each in folders if not (here / each / "run.json").exists()]
        yield from (path for name in names if not (path := here / name).is_symlink() and path.is_file())


# Private words in the bytes of a file: names of home folders, keys and passwords, each covered letter by letter.
#
# What is covered keeps its length, so that rows in Arrow files stay readable and every offset in them stays right.

_COVER = b"*"
_SLASH = rb"(?:/|\\{1,4}|%2[fF])"
_NAME = rb"[^/\\%\s\"'<>&|:;,(){}\[\]`\x00-\x1f]+"
_HOMES = (
    re.compile(rb"(?i:" + _SLASH + rb"(?:home|users)" + _SLASH + rb")(?P<private>" + _NAME + rb")"),
    re.compile(rb"(?<![\w.-])" + _SLASH + rb"(?P<private>root)(?![\w.-])"),
)
_KEY_NAME = (
    rb"(?i:api[-_]?key|private_key_id|secret|password|passwd|credentials?|(?:access|auth|hf|refresh|api)[-_]?token)"
)
_VALUE = rb"(?P<private>[^\s\"'<>&,;\\\x00-\x1f]{4,})"
_KEYS = (
    re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(?P<private>(?:[A-Za-z0-9+/=\s]|\\[nr])+)"),
    re.compile(rb"(?<![\w-])(?P<private>(?:sk|pk|rk)-[A-Za-z0-9_-]{16,})"),
    re.compile(rb"(?<![\w-])(?P<private>(?:hf_|nvapi-|gh[opsur]_|github_pat_|glpat-|xox[abprs]-)[A-Za-z0-9_-]{16,})"),
    re.compile(rb"(?<![\w-])(?P<private>(?:AKIA|ASIA)[A-Z0-9]{16})(?!\w)"),
    re.compile(rb"(?<![\w-])(?P<private>eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})"),
    re.compile(rb"(?<![\w-])(?P<private>AIza[\w-]{35})(?![\w-])"),
    re.compile(rb"(?<![\w-])(?P<private>(?:(?:sk|pk|rk)_(?:live|test)_|whsec_)[A-Za-z0-9]{10,})"),
    re.compile(rb"(?<![\w-])(?P<private>(?:npm_|pypi-|do[opr]_v1_)[A-Za-z0-9_-]{32,})"),
    re.compile(rb"[?&;]sig=(?P<private>[A-Za-z0-9%+/=_-]{16,})"),  # a shared access signature
    re.compile(rb"(?i:bearer)\s+(?P<private>[A-Za-z0-9._~+/=-]{8,})"),
    re.compile(rb"(?i:authorization)[\"']?\s*[:=]\s*[\"']?(?i:basic\s+)?" + _VALUE),
    re.compile(rb"(?i:[a-z]+://)(?P<private>[^/\s\"'@<>]+)@"),
    re.compile(rb"\\?\"[\w-]*" + _KEY_NAME + rb"\\?\"\s*:\s*\\?\"" + _VALUE),  # a JSON value that is a text
    re.compile(rb"--[\w-]*" + _KEY_NAME + rb"(?:=|\\?[\"'],\s*\\?[\"']|\s+)" + _VALUE),  # an option, also in a list
    re.compile(_KEY_NAME + rb"\s*[=:]\s*[\"']?" + _VALUE),
)
_PEOPLE = (
    re.compile(rb"(?<![\w.@-])(?P<private>[A-Za-z0-9][\w.+-]{2,63}@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,24})(?![\w-])"),
    # Addresses of a private network, but for their last number: two servers of one study stay two.
    re.compile(
        rb"(?<![\w.])(?P<private>(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d{1,3})\.\d{1,3}(?!\.?\d)"
    ),
)


@dataclass(frozen=True, slots=True)
class Cover:
    """`homes`, `secrets`: words of this machine that are covered wherever they stand, beside what the patterns find.

    `stated`: what whoever measured says of themselves, which stays readable.
    """

    homes: tuple[bytes, ...] = ()
    secrets: tuple[bytes, ...] = ()
    stated: tuple[bytes, ...] = ()

    def covered(self, data: bytes) -> tuple[bytes, int]:
        """The same bytes with private words covered by asterisks, and how many words were."""
        places = sorted({span for span in self._found(data) if set(data[slice(*span)]) != set(_COVER)})
        kept = bytearray(data)
        for begin, end in places:
            kept[begin:end] = _COVER * (end - begin)
        return bytes(kept), len(places)

    def text(self, text: str) -> str:
        """The same of a text."""
        return self.covered(text.encode("utf-8", "replace"))[0].decode("utf-8", "replace")

    def _found(self, data: bytes) -> Iterable[tuple[int, int]]:
        for pattern in (*_HOMES, *_KEYS, *_PEOPLE):
            for match in pattern.finditer(data):
                if match["private"] not in self.stated:
                    yield match.span("private")
        for word in (*self.homes, *self.secrets):
            begin = data.find(word)
            while begin >= 0:
                yield begin, begin + len(word)
                begin = data.find(word, begin + len(word))


def cover_of(home: str, secrets: Iterable[str], stated: Iterable[str] = ()) -> Cover:
    """Cover of the home folder `home` ("/" is the home of nobody), and of secrets of eight letters or more.

    `stated`: words that stay readable.
    """
    place = home.rstrip("/\\")
    homes = (place.encode(),) if len(place) > 1 else ()
    return Cover(homes, tuple(word.encode() for word in secrets if len(word) >= 8), tuple(map(str.encode, stated)))
