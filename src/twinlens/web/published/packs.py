"""Packs as a site lists them: found, named, copied, checked, and told apart by what their runs hold."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.api.judging.recomputed import README, readme_follows, unreadable
from twinlens.api.runs import PACK
from twinlens.errors import BadInput
from twinlens.pack.archive import Archive, safe_part
from twinlens.pack.check import ABOUT, Checked, check_pack
from twinlens.pack.sums import SUMS, sha256_of
from twinlens.reporting.display import clean

CODE = "TL274"
MOST_PACK_BYTES = 2 * 1024**3
_OF_ITS_OWN = (ABOUT, README)
"""Files that say who made a pack; what its runs hold does not follow from them."""


@dataclass(frozen=True, slots=True)
class Pack:
    """One pack. `slug`: its folder in the site. `key`: equal for packs of the same runs; "" where the check failed."""

    name: str
    slug: str
    checked: Checked
    key: str = ""
    sha256: str = ""
    bytes: int = 0

    @property
    def who(self) -> str:
        """Who measured, as the pack says."""
        said = self.checked.about.get("measured_by")
        parts = [clean(value, 80) for value in said.values() if value] if isinstance(said, Mapping) else []
        return ", ".join(parts) or "not stated"

    @property
    def signer(self) -> str:
        """Who signed: a name of the allowed signers, else the fingerprint of a key; "" where nobody did."""
        for each in self.checked.findings:
            if each.code == "pack-signed":
                return each.subject
            if each.code == "pack-signer-unknown":
                return str(each.numbers["key"])
        return ""

    @property
    def when(self) -> str:
        """The days of the first and the last run, as the pack says."""
        runs = self.checked.about.get("runs")
        told = [run.get("started_utc") for run in runs if isinstance(run, Mapping)] if isinstance(runs, list) else []
        days = sorted(clean(each, 40)[:10] for each in told if each)
        return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "not stated"


def packs_in(given: Iterable[str | Path]) -> list[Path]:
    """The packs of files and folders, each once, by name. Links in folders are not followed.

    Raises BadInput (TL274) for a path that is not there, and where no pack is.
    """
    found: dict[Path, None] = {}
    for each in map(Path, given):
        if not each.exists():
            raise BadInput(f"there is no pack or folder {str(each)!r}", code=CODE)
        inside = sorted(each.rglob("*.zip")) if each.is_dir() else [each]
        found |= dict.fromkeys(file for file in inside if not (each.is_dir() and file.is_symlink()))
    if not found:
        raise BadInput("a site is made of evidence packs: name files or folders (twinlens site docs/results -o site)",
                       code=CODE)  # fmt: skip
    return sorted(found, key=lambda file: (name_of(file), file.as_posix()))


def name_of(file: Path) -> str:
    """What a pack is called: its file, or for `evidence.zip` its folder."""
    return file.resolve().parent.name if file.name == PACK else file.name.removesuffix(".zip")


def slugs(names: Sequence[str]) -> list[str]:
    """A name of a file for each name, in letters that every host takes, all different whatever the case."""
    used: dict[str, int] = {}
    made = []
    for name in names:
        plain = safe_part(name).lower()[:60]
        plain = plain if plain == name else f"{plain}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
        used[plain] = used.get(plain, 0) + 1
        made.append(plain if used[plain] == 1 else f"{plain}--{used[plain]}")
    return made


def taken(file: Path, slug: str, to: Path, signers: Path | None) -> Pack:
    """A pack copied to `to` and checked there, so that what is served is what was checked; a bad one is not kept."""
    name = clean(name_of(file), 80)
    try:
        if not file.is_file() or file.stat().st_size > MOST_PACK_BYTES:
            raise BadInput(f"it is no file, or larger than {MOST_PACK_BYTES // 1024**3} GiB", code=CODE)
        to.parent.mkdir(parents=True)
        shutil.copyfile(file, to)
        checked = check_pack(to, signers)
        checked = checked.with_findings(readme_follows(to, checked.about)) if checked.is_good else checked
    except (BadInput, OSError) as error:
        checked = Checked((unreadable(BadInput(plain(error, to, file.name))),), {})
    if not checked.is_good:
        shutil.rmtree(to.parent, ignore_errors=True)
        return Pack(name, slug, checked)
    return Pack(name, slug, checked, key_of(to, checked.about), sha256_of(to), os.stat(to).st_size)


def plain(error: Exception, place: str | Path, name: str) -> str:
    """What an error says, without the place of this build in it."""
    said = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return said.replace(str(place), name)


def key_of(file: Path, about: Mapping[str, Any]) -> str:
    """A hash of all that a pack holds, but for who made it and when it was packed."""
    with Archive(file) as archive:
        lines = [line for line in archive.text(SUMS).splitlines() if not line.endswith(tuple(f"  {each}" for each in
                 _OF_ITS_OWN))]  # fmt: skip
    told = {name: value for name, value in about.items() if name not in ("measured_by", "made_utc")}
    return hashlib.sha256(json.dumps([lines, told], sort_keys=True).encode()).hexdigest()[:32]
