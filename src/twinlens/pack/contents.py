"""Contents of a pack: copies of run folders, and what it says of itself: who measured, when, on what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from twinlens.errors import BadInput
from twinlens.pack.archive import safe_part
from twinlens.pack.run_folder import OF_BURNIN, OF_RUN, OF_STUDY, OF_TURN, Cover, Taken, folder_hash, take
from twinlens.pack.sums import UNREADABLE
from twinlens.record.codec import encode
from twinlens.record.run import Run

Role = Literal["buyer", "vendor", "third party"]
ROLES: tuple[Role, ...] = ("buyer", "vendor", "third party")
_MOST_LETTERS = 200


@dataclass(frozen=True, slots=True)
class Author:
    """Who measured, as they say themselves; None is "not stated", and nothing is ever guessed."""

    name: str | None = None
    organisation: str | None = None
    contact: str | None = None
    role: str | None = None

    def __post_init__(self) -> None:
        for what, value in asdict(self).items():
            if value is not None and not (value.strip() and value.isprintable() and len(value) <= _MOST_LETTERS):
                raise BadInput(
                    f"the {what} is a line of 1 to {_MOST_LETTERS} letters, not {value[:40]!r}", code=UNREADABLE
                )
        if self.role is not None and self.role not in ROLES:
            raise BadInput(f"a role is one of {', '.join(ROLES)}, not {self.role[:40]!r}", code=UNREADABLE)


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of folders: `members` by their name in the pack, and for each run and study what was taken of it."""

    members: dict[str, bytes] = field(default_factory=dict)
    taken: dict[Path, tuple[str, tuple[Taken, ...]]] = field(default_factory=dict)

    @property
    def covered(self) -> int:
        """Private words that lie under asterisks."""
        return sum(each.covered for _, files in self.taken.values() for each in files)

    def of(self, folder: Path) -> dict[str, Any]:
        """A folder as evidence.json tells it: its place, one checksum for all of it, and every file that lies there."""
        place, files = self.taken[folder]
        return {"folder": place, "sha256": folder_hash(files), "files": [encode(each) for each in files]}


def copies_of(runs: Iterable[Run], cover: Cover) -> Copies:
    """Copies of run folders, and of the folders of studies and burn-ins that they lie in, under `runs/`. Raises
    BadInput, OSError."""
    copies = Copies()
    for run in runs:
        _add(copies, run.folder.resolve(), _above(copies, run.folder.resolve().parent, cover), OF_RUN, cover)
    return copies


def _above(copies: Copies, parent: Path, cover: Cover) -> str:
    """The place in the pack that a run goes below: that of its study, or of its turn of a burn-in."""
    if (parent / "study.json").is_file():
        return _add(copies, parent, "runs", OF_STUDY, cover)
    burnin = parent.parent
    if not (burnin / "burnin.json").is_file():
        return "runs"
    of_turns = (f"{turn.name}/{name}" for turn in burnin.glob("turn-*") for name in OF_TURN)
    return f"{_add(copies, burnin, 'runs', (*OF_BURNIN, *of_turns), cover)}/{safe_part(parent.name)}"


def _add(copies: Copies, folder: Path, above: str, wanted: tuple[str, ...], cover: Cover) -> str:
    """Take a folder once; gives its place in the pack."""
    if folder in copies.taken:
        return copies.taken[folder][0]
    name = safe_part(cover.text(folder.name))
    used = {place for place, _ in copies.taken.values()}
    place = next(
        each
        for number in range(1, len(used) + 2)
        if (each := f"{above}/{name}" if number == 1 else f"{above}/{name}-{number}") not in used
    )
    files, taken = take(folder, wanted, cover)
    copies.members.update({f"{place}/{file}": data for file, data in files.items()})
    copies.taken[folder] = place, taken
    return place
