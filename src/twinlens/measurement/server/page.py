"""The metrics pages of a server, fetched again and again over connections that are kept."""

from __future__ import annotations

import http.client
import ssl
import time
from urllib.parse import quote, urljoin, urlsplit

from twinlens.measurement.server.columns import Columns, columns_of
from twinlens.measurement.server.tensorrt_llm import IterationStats
from twinlens.network.page import PageClient
from twinlens.network.target import Target
from twinlens.record.foreign_text import in_one_line
from twinlens.system.document import json_of

_PATIENCE_S = 5.0  # trtllm-serve waits two seconds for statistics where there are none
_MOST_BYTES = 1 << 22
_MOVED = (301, 302, 307, 308)
_ALSO = "/prometheus/metrics"  # where trtllm-serve has the page that others have at /metrics
_PAUSE_S = 5e-5
_PORTS = {"http": 80, "https": 443}


class NoPage(Exception):
    """Why a page could not be read, in a few words."""


class HttpPage:
    """The page at `url`. The API key of `target` goes only to the server it is meant for."""

    def __init__(self, url: str, target: Target) -> None:
        parts = urlsplit(url)
        self.url = url
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        page, server = (parts.scheme, host, port), (target.host, target.port)
        is_target = page == ("https" if target.is_tls else "http", *server)
        known = ("User-Agent", "Accept-Encoding")
        self._headers = {key: value for key, value in target.headers().items() if key in known}
        self._headers |= {"Accept": "text/plain"} | (target.key_headers() if is_target else {})
        tls = None
        if parts.scheme == "https":
            tls = target.tls() if is_target else ssl.create_default_context()
        self._client = PageClient(host, port, tls)

    def get(self) -> bytes:
        """The page. Raises NoPage."""
        until_s = time.monotonic() + _PATIENCE_S
        for _ in range(2):  # a mounted page is often one redirection away
            try:
                page = self._client.ask(self._path, self._headers, until_s - time.monotonic(), most_bytes=_MOST_BYTES)
            except (OSError, http.client.HTTPException) as error:
                why = in_one_line(str(error) or type(error).__name__, 100)
                raise NoPage(f"the metrics page does not answer ({why})") from None
            place = page.headers.get("location", "")
            if page.status in _MOVED and place:
                self._path = self._moved(place)
                continue
            if page.status != 200:
                raise NoPage(f"the server has no metrics page ({page.status})")
            return page.body
        raise NoPage("the metrics page is moved from place to place")

    def close(self) -> None:
        self._client.close()

    def _moved(self, place: str) -> str:
        """The path of a redirection, on the same server. Raises NoPage for what is no address."""
        try:
            path = urlsplit(urljoin(self.url, place)).path
        except ValueError:
            raise NoPage(f"the metrics page is moved to {in_one_line(place, 60)!r}, which is no address") from None
        return quote(path.encode("latin-1", "replace"), safe="/%:@!$&'()*+,;=~") or "/"


def pause() -> None:
    """Hand the interpreter over. A client that waits for it would be given it after half a millisecond otherwise."""
    time.sleep(_PAUSE_S)


class ServerPage:
    """The metrics of one server: its Prometheus page, or TensorRT-LLM's two."""

    def __init__(self, target: Target) -> None:
        parts = urlsplit(target.url)
        origin = f"{parts.scheme}://{parts.netloc}"
        self._page = HttpPage(target.metrics_url or f"{origin}/metrics", target)
        self._also: HttpPage | None = HttpPage(f"{origin}{_ALSO}", target)
        self._steps = IterationStats()

    @property
    def url(self) -> str:
        return self._page.url

    def fetch(self) -> bytes:
        """The page as it is now. Raises NoPage."""
        return self._page.get()

    def understand(self, body: bytes) -> Columns:
        """All that it says. Raises NoPage."""
        try:
            if body.lstrip()[:1] in (b"[", b"{"):
                return self._steps.add(json_of(body.decode())) | self._beside()
            columns = columns_of(body, pause)
        except (ValueError, LookupError, ArithmeticError, RecursionError) as error:  # the parser's own, too
            raise NoPage(f"the metrics page cannot be read ({str(error)[:100]})") from None
        if not columns:
            raise NoPage("the metrics page has none of the names that are known here")
        return columns

    def close(self) -> None:
        self._page.close()
        if self._also is not None:
            self._also.close()

    def _beside(self) -> Columns:
        if self._also is None:
            return {}
        try:
            return columns_of(self._also.get(), pause)
        except (NoPage, ValueError):
            self._also = None  # asked once: a server without it has none later either
            return {}
