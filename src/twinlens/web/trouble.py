"""Trouble as a page with one sentence: wrong words with the nearest, and never a traceback."""

from __future__ import annotations

import logging

from aiohttp import web

from twinlens.errors import BadInput, TwinlensError
from twinlens.reporting.display import clean
from twinlens.web.door import Handler
from twinlens.web.page import AS, Answer, respond

_LOG = logging.getLogger("twinlens.web")


@web.middleware
async def trouble(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as refused:
        if refused.status < 400:
            raise
        return told(request, refused.text or refused.reason, refused.status)
    except TwinlensError as error:
        return told(request, str(error), 400 if isinstance(error, BadInput) else 500, error.code)
    except Exception:
        _LOG.exception("%s", clean(request.path, 200))
        return told(request, "this page failed; the server's own output has the details", 500)


def told(request: web.Request, sentence: str, status: int, code: str | None = None) -> web.Response:
    """The sentence, as JSON where that was asked for."""
    if request.query.get(AS) == "json" or "application/json" in request.headers.get("Accept", ""):
        return web.json_response({"error": sentence, "code": code}, status=status)
    values = {"sentence": sentence, "code": code}
    return respond(request, Answer("This cannot be shown", above="trouble.html.j2", values=values, status=status))
