"""The addresses of this room."""

from __future__ import annotations

from aiohttp import web

from twinlens.web.ask import plan


def add(app: web.Application) -> None:
    """Put them into the application."""
    app.router.add_get("/plan", plan.overview)
    app.router.add_get("/plan/{verb}", plan.verb)
