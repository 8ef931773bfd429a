"""Admission: this machine under its own name, with the token where it is asked for, and only with our own forms."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web

from twinlens.web.place import Place, place_of

COOKIE = "twinlens"
FORM = "form_token"
FORM_HEADER = "X-Twinlens-Form"
MOST_BODY_BYTES = 2_000_000
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "style-src-attr 'unsafe-inline'",  # lengths of bars
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser sends our own forms with the origin "null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_READS = frozenset({"GET", "HEAD"})
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def door(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what comes under another name (DNS rebinding), from another site, or without the token."""
    place = place_of(request)
    if not is_own_name(request.host, place):
        raise web.HTTPMisdirectedRequest(text="this site is served under its own address alone")
    if place.token and not _has_token(request, place):
        raise web.HTTPForbidden(text="this site asks for its token: open the address that `twinlens browse` printed")
    if request.method not in _READS:
        origin = request.headers.get("Origin")
        if origin is None or urlsplit(origin).netloc != request.host:
            raise web.HTTPForbidden(text="this form came from another site")
        if not hmac.compare_digest(await _form_token(request), place.form):
            raise web.HTTPForbidden(text="this page is older than the server that it asks; load it again")
    response = await handler(request)
    if place.token and request.query.get("token") and not response.prepared:
        response.set_cookie(f"{COOKIE}-{place.port}", place.token, httponly=True, samesite="Strict", path="/")
    return response


async def sealed(request: web.Request, response: web.StreamResponse) -> None:
    """The headers of every answer, errors and streams included (a signal of the application)."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def is_own_name(host: str, place: Place) -> bool:
    """Whether a Host header names this server: an address, or a name that it was given, with its own port."""
    parts = urlsplit(f"//{host}")
    try:
        name, port = parts.hostname or "", parts.port or 80
    except ValueError:
        return False
    if port != place.port:
        return False
    try:
        address = ip_address(name)
    except ValueError:
        return name in place.names
    return address.is_loopback or bool(place.token)


def _has_token(request: web.Request, place: Place) -> bool:
    shown = request.query.get("token") or request.cookies.get(f"{COOKIE}-{place.port}", "")
    return hmac.compare_digest(shown.encode(), place.token.encode())


async def _form_token(request: web.Request) -> str:
    header = request.headers.get(FORM_HEADER)
    if header is not None:
        return header
    if request.content_type in ("application/x-www-form-urlencoded", "multipart/form-data"):
        return str((await request.post()).get(FORM, ""))
    return ""
