"""The addresses of this room. Their pages are loaded when the first of them is asked for, or ahead of it."""

from __future__ import annotations

from aiohttp import web

from twinlens.web.ask import this
from twinlens.web.work.room import later

PAGES = "twinlens.web.ask"


def add(app: web.Application) -> None:
    """Put them into the application."""
    app[this.THIS] = this.This()
    app.cleanup_ctx.append(this.kept)
    app.router.add_get("/plan", later(f"{PAGES}.plan", "overview"))
    app.router.add_post("/plan/probe", this.probe)
    app.router.add_get("/plan/quotes", later(f"{PAGES}.quotes", "form"))
    app.router.add_post("/plan/quotes", later(f"{PAGES}.quotes", "sent"))
    app.router.add_get("/plan/{verb}", later(f"{PAGES}.plan", "verb"))
    app.router.add_get("/claim", later(f"{PAGES}.claim", "sentence"))
    app.router.add_post("/claim", later(f"{PAGES}.claim", "text"))
    app.router.add_get("/explain", later(f"{PAGES}.explain", "search"))
    app.router.add_get("/explain/{word}", later(f"{PAGES}.explain", "word"))
    app.router.add_get("/compare", later(f"{PAGES}.compare", "compare"))
    app.router.add_get("/diagnose", later(f"{PAGES}.compare", "diagnose"))
    app.router.add_get("/lab", later(f"{PAGES}.lab", "lab"))
