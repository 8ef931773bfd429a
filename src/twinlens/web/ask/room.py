"""The addresses of this room."""

from __future__ import annotations

from aiohttp import web

from twinlens.web.ask import claim, compare, explain, lab, plan, quotes, this


def add(app: web.Application) -> None:
    """Put them into the application."""
    app[this.THIS] = this.This()
    app.cleanup_ctx.append(this.kept)
    app.router.add_get("/plan", plan.overview)
    app.router.add_post("/plan/probe", this.probe)
    app.router.add_get("/plan/quotes", quotes.form)
    app.router.add_post("/plan/quotes", quotes.sent)
    app.router.add_get("/plan/{verb}", plan.verb)
    app.router.add_get("/claim", claim.sentence)
    app.router.add_post("/claim", claim.text)
    app.router.add_get("/explain", explain.search)
    app.router.add_get("/explain/{word}", explain.word)
    app.router.add_get("/compare", compare.compare)
    app.router.add_get("/diagnose", compare.diagnose)
    app.router.add_get("/lab", lab.lab)
