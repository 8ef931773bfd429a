"""The rooms of the site, one for each thing that can be done; each puts its own addresses into the application."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiohttp import web

from twinlens.web.ask.room import add as _ask
from twinlens.web.playground.room import add as _playground
from twinlens.web.runs.room import add as _runs
from twinlens.web.static_files import static_file
from twinlens.web.work.room import add as _work
from twinlens.web.work.room import later

Room = Callable[[web.Application], None]


def rooms() -> Sequence[Room]:
    return (_others, _ask, _runs, _work, _playground)


def _others(app: web.Application) -> None:
    app.router.add_get("/static/{name}", static_file)
    app.router.add_get("/gateway", later("twinlens.web.gateways", "gateways"))
