"""The addresses of this room. Their pages are loaded when the first of them is asked for: a site starts at once."""

from __future__ import annotations

import asyncio
from importlib import import_module

from aiohttp import web

from twinlens.web.door import Handler

_PAGES = "twinlens.web.work.pages"


def add(app: web.Application) -> None:
    """Put the addresses of this room into the application."""
    app.router.add_get("/measure", later(_PAGES, "measure"))
    app.router.add_post("/measure", later(_PAGES, "measure"))
    app.router.add_get("/jobs", later(_PAGES, "listed"))
    app.router.add_post("/jobs", later(_PAGES, "begin"))
    app.router.add_get("/jobs/{id}", later(_PAGES, "watched"))
    app.router.add_get("/jobs/{id}/state", later(_PAGES, "state"))
    app.router.add_post("/jobs/{id}/stop", later(_PAGES, "stopped"))


def later(module: str, name: str) -> Handler:
    """A handler of a module that is imported, in a thread, when it is first asked for."""

    async def handler(request: web.Request) -> web.StreamResponse:
        loaded = await asyncio.to_thread(import_module, module)
        answer: web.StreamResponse = await getattr(loaded, name)(request)
        return answer

    return handler
