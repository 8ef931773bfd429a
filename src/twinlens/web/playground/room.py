"""The addresses of the playground. Their pages are loaded when the first of them is asked for."""

from __future__ import annotations

from aiohttp import web

from twinlens.web.work.room import later

_PAGES, _TALK = "twinlens.web.playground.pages", "twinlens.web.playground.talk"


def add(app: web.Application) -> None:
    """Put the addresses of this room into the application."""
    app.router.add_get("/chat", later(_PAGES, "chat"))
    app.router.add_post("/chat", later(_PAGES, "asked_without_script"))
    app.router.add_post("/chat/ask", later(_TALK, "asked"))
    app.router.add_post("/chat/save", later(_PAGES, "saved"))
    app.router.add_post("/chat/serve", later(_PAGES, "served"))
