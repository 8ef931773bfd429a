"""Runs by the words of an address: what the index of the site knows, and nothing else, becomes a folder."""

from __future__ import annotations

from pathlib import Path

from twinlens.errors import BadInput, nearest
from twinlens.web.ask.words import CODE
from twinlens.web.runs.index import Found, Index

MOST_RUNS = 40
"""Runs or studies of one comparison."""
_MOST_SHOWN = 40


def folder_of(index: Index, word: str) -> Path:
    """The folder of a run, a study or a pack by its id. Raises BadInput (TL270) with the nearest."""
    found = index.find(word)
    if found is None:
        known = nearest(word[:80], index.listing().by_id) if index.listing().by_id else "there is none here"
        raise BadInput(f"there is no run {word[:80]!r} in the folders of this site; {known}", code=CODE)
    return Path(found.path)


def side_of(index: Index, word: str) -> str:
    """A side of a comparison: a folder by its id, and the point of it that stands after "@"."""
    id, at, point = word.partition("@")
    return f"{folder_of(index, id)}{at}{point[:200]}"


def newest(index: Index, chosen: tuple[str, ...] = ()) -> list[tuple[str, str, bool]]:
    """Runs to choose from, id and name, the chosen first; how many there are besides, the page of runs says."""
    listing = index.listing()
    first = [found for id in chosen if (found := listing.by_id.get(id.partition("@")[0])) is not None]
    rest = [each for each in (*listing.packs[:_MOST_SHOWN], *listing.runs[:_MOST_SHOWN]) if each not in first]
    return [(each.id, _name(each), each in first) for each in (*dict.fromkeys(first), *rest)]


def _name(found: Found) -> str:
    """A run's name; a pack is called after its folder, as most have one name."""
    return f"{Path(found.path).parent.name}/{found.name}" if found.kind == "pack" else found.name
