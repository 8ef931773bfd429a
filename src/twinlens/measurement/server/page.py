"""The metrics pages of a server, fetched again and again over connections that are kept."""

from __future__ import annotations

import http.client
import json
import time
from urllib.parse import urljoin, urlsplit

from twinlens.executors.openai.target import Target
from twinlens.measurement.server.columns import Columns, columns_of
from twinlens.measurement.server.tensorrt_llm import IterationStats

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
        self.url, self._parts = url, parts
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._port = parts.port or _PORTS[parts.scheme]
        known = ("User-Agent", "Accept-Encoding", "Authorization")
        self._headers = {key: value for key, value in target.headers().items() if key in known}
        self._headers["Accept"] = "text/plain"
        page, server = (parts.scheme, parts.hostname, self._port), (target.host, target.port)
        self._is_target = page == ("https" if target.is_tls else "http", *server)
        if not self._is_target:
            self._headers.pop("Authorization", None)
        self._tls = target.tls() if self._is_target else None
        self._connection: http.client.HTTPConnection | None = None

    def get(self) -> bytes:
        """The page. Raises NoPage."""
        for _ in range(2):  # a mounted page is often one redirection away
            try:
                status, place, body = self._ask()
            except (OSError, http.client.HTTPException) as error:
                self.close()
                raise NoPage(f"the metrics page does not answer ({str(error) or type(error).__name__})") from None
            if status in _MOVED and place:
                self._path = urlsplit(urljoin(self.url, place)).path
                continue
            if status != 200:
                raise NoPage(f"the server has no metrics page ({status})")
            return body
        raise NoPage("the metrics page is moved from place to place")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self) -> tuple[int, str, bytes]:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request("GET", self._path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read(_MOST_BYTES)
        if answer.read(1):
            raise http.client.HTTPException(f"it is longer than {_MOST_BYTES} bytes")
        return answer.status, answer.headers.get("location", ""), body

    def _connect(self) -> http.client.HTTPConnection:
        host = self._parts.hostname or ""
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, self._port, timeout=_PATIENCE_S, context=self._tls)
        return http.client.HTTPConnection(host, self._port, timeout=_PATIENCE_S)


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
                return self._steps.add(json.loads(body)) | self._beside()
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
