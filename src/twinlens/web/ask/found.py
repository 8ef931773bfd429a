"""Runs by their id: the only way from an address to a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from twinlens.errors import BadInput, nearest
from twinlens.web.ask.words import CODE
from twinlens.web.place import Place

_DEEP = ("run.json", "*/run.json", "*/*/run.json")
"""A run folder, a study of runs, or a folder of studies."""


def folder_of(place: Place, run: str) -> Path:
    """The folder of a run, by the name of that folder. Raises BadInput (TL270) with the nearest."""
    known = {each.name: each for each in folders(place)}
    if run not in known:
        raise BadInput(f"there is no run {run[:60]!r} in the folders of this site; {nearest(run, known)}", code=CODE)
    return known[run]


def folders(place: Place) -> Iterator[Path]:
    """The folders of all runs that the site shows; no link leads out of its own folders."""
    for root in dict.fromkeys((*place.folders, place.out)):
        for pattern in _DEEP:
            for record in sorted(root.glob(pattern)):
                if record.resolve().is_relative_to(root.resolve()):
                    yield record.parent
