"""Connections of the playground: no proxy, no cookies, nothing compressed, no redirection, no link-local address."""

from __future__ import annotations

import errno
import ssl
from functools import lru_cache
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from twinlens.gateway.address import may_ask
from twinlens.version import __version__

_CONNECT_S = 5.0
_BUFFER_BYTES = 2**18


class GuardedResolver(AbstractResolver):
    """Names into addresses, without those that may not be asked: what a name says can change from one moment to the
    next, and this is the moment that counts."""

    def __init__(self) -> None:
        self._inner = ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        if any(not may_ask(each["host"]) for each in found):
            raise OSError(errno.EACCES, f"{host} is a link-local address, which is not asked")
        return found

    async def close(self) -> None:
        await self._inner.close()


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """With the roots of this machine: a site makes aiohttp's own without any (`reading_process.beginning`)."""
    return ssl.create_default_context()


def session(url: str, key: str = "", *, longest_s: float, silence_s: float | None = None) -> aiohttp.ClientSession:
    """Connections of its own, each for one request to the server of an address. `silence_s`: between two reads, a
    timer for each."""
    headers = {"User-Agent": f"twinlens/{__version__}", "Accept-Encoding": "identity"}
    kept: dict[str, Any] = {"ssl": _tls()} if url.startswith("https:") else {}
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=GuardedResolver(), limit=0, force_close=True, **kept),
        headers=headers | ({"Authorization": f"Bearer {key}"} if key else {}),
        timeout=aiohttp.ClientTimeout(total=longest_s, sock_connect=_CONNECT_S, sock_read=silence_s),
        cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False, read_bufsize=_BUFFER_BYTES,
    )  # fmt: skip
