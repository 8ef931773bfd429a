"""Runs by the words of an address: what the index of the site knows, and nothing else, becomes a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from twinlens.errors import BadInput, nearest
from twinlens.web.ask.words import CODE
from twinlens.web.runs.index import Found, Index

MOST_RUNS = 40
"""Runs or studies of one comparison."""
_MOST_SHOWN, _MOST_LOOKED = 40, 200


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


@dataclass(frozen=True, slots=True)
class Offered:
    """A run or a pack to choose. `id`: the word of an address, with what was typed after "@"; `facts`: of a run, in
    words that tell it from its neighbours."""

    id: str
    name: str
    facts: str
    is_chosen: bool


def is_alone(index: Index, words: tuple[str, ...]) -> bool:
    """Whether a comparison lacks its other side: one run was chosen, which is no study of several points."""
    found = index.find(words[0].partition("@")[0]) if len(words) == 1 else None
    return found is not None and (found.kind == "run" or "@" in words[0])


def newest(index: Index, chosen: tuple[str, ...] = (), lens: str = "") -> list[Offered]:
    """What there is to choose from, the chosen first; how many there are besides, the page of runs says.

    `lens`: only its runs that are not known to be invalid, and no packs.
    """
    listing = index.listing()
    first = {word: found for word in chosen if (found := listing.by_id.get(word.partition("@")[0])) is not None}
    some = [*listing.packs[:_MOST_SHOWN], *listing.runs[:_MOST_SHOWN]]
    if lens:
        rows = ((each, index.row(each)) for each in listing.runs[:_MOST_LOOKED])
        some = [each for each, row in rows if row.lens == lens and row.may_be_compared][:_MOST_SHOWN]
    rest = {each.id: each for each in some if each not in first.values()}
    return [Offered(word, _name(each), _facts(index, each), word in first) for word, each in {**first, **rest}.items()]


def _facts(index: Index, found: Found) -> str:
    if found.kind != "run":
        return ""
    row = index.row(found)
    when = f"{row.started[:10]} {row.started[11:13]}:{row.started[13:15]}" if len(row.started) >= 15 else "no time"
    return " · ".join(each for each in (when, row.lens, f"{row.model} at {row.precision}", row.validity) if each)


def _name(found: Found) -> str:
    """A run's name; a pack is called after its folder, as most have one name."""
    return f"{Path(found.path).parent.name}/{found.name}" if found.kind == "pack" else found.name
