"""Facts of a served site: its folders, where new runs go, and who may enter."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Place:
    """`folders`: whose runs are shown; `out`: where new ones go. `token`: asked for at the door, "" on loopback alone.

    `form`: goes with every form of ours, so that no other site can send one. `names`: of the host, besides addresses.
    """

    folders: tuple[Path, ...]
    out: Path
    port: int = 0
    token: str = ""
    names: frozenset[str] = frozenset({"localhost"})
    form: str = field(default_factory=lambda: secrets.token_urlsafe(24))


PLACE = web.AppKey("place", Place)


def place_of(request: web.Request) -> Place:
    return request.app[PLACE]
