"""The addresses of the room, and what the site keeps for it: the index, the notes, and the thread that reads."""

from __future__ import annotations

import asyncio

from aiohttp import web

from twinlens.web.place import PLACE
from twinlens.web.runs.explorer import READER, explorer
from twinlens.web.runs.home import home
from twinlens.web.runs.index import INDEX, Index
from twinlens.web.runs.notes import NOTES, Notes
from twinlens.web.runs.reading import Reader
from twinlens.web.work.room import later

PAGES = "twinlens.web.runs"
LOOKING = web.AppKey("looking", asyncio.Task)


def add(app: web.Application) -> None:
    place = app[PLACE]
    app[INDEX] = Index((*place.folders, place.out))
    app[NOTES] = Notes(place.out)
    app[READER] = Reader(app[INDEX])
    app.on_startup.append(_look)
    app.on_cleanup.append(_end)
    app.router.add_get("/", home)
    app.router.add_get("/runs", explorer)
    app.router.add_get("/runs/{id}", later(f"{PAGES}.run_page", "run_page"))
    app.router.add_get("/runs/{id}/rows", later(f"{PAGES}.rows", "rows_page"))
    app.router.add_get("/packs/{id}", later(f"{PAGES}.packs", "pack_page"))
    app.router.add_post("/runs/{id}/note", later(f"{PAGES}.run_page", "note"))


async def _look(app: web.Application) -> None:
    """Names are known before the first page asks for them."""
    app[LOOKING] = asyncio.create_task(asyncio.to_thread(app[INDEX].listing))


async def _end(app: web.Application) -> None:
    await app[LOOKING]
    await asyncio.to_thread(app[READER].end)
