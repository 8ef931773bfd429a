"""Pages over HTTP, each within a deadline and a number of bytes, however slowly or endlessly a server sends.

For what is asked beside a load: models, metrics, readiness. The load itself goes through event_loop.py.
"""

from __future__ import annotations

import http.client
import io
import os
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from twinlens.errors import BadInput
from twinlens.network.target import api_key, key_header, tls_context
from twinlens.record.foreign_text import in_one_line
from twinlens.system.document import json_of
from twinlens.version import __version__

_MOST_PAGE_BYTES = 4 * 2**20
CONNECT_S = 3.0
_HEAD_BYTES = 2**18


class NotConnected(TimeoutError):
    """Nobody took the connection in time."""


@dataclass(frozen=True, slots=True)
class Page:
    """What came: status, headers (their names in lower case) and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PageClient:
    """One server, over one connection that is kept. `tls`: None for plain HTTP."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._connection: http.client.HTTPConnection | None = None
        self._bounded: _Bounded | None = None

    def ask(
        self,
        path: str,
        headers: Mapping[str, str],
        within_s: float,
        body: bytes | None = None,
        most_bytes: int = _MOST_PAGE_BYTES,
    ) -> Page:
        """The page at `path`, of a POST where there is a `body`, within so many seconds in all.

        Raises NotConnected, TimeoutError, OSError, or http.client.HTTPException for what is no HTTP, too long, or a
        path that cannot be sent. After any of these the connection is closed.
        """
        until_s = time.monotonic() + within_s
        try:
            connection, bounded = self._connected(until_s)
            bounded.until_s, bounded.left_bytes = until_s, most_bytes + _HEAD_BYTES
            connection.request("GET" if body is None else "POST", path, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read(most_bytes)
            if answer.read(1):
                raise http.client.HTTPException(f"it is longer than {most_bytes} bytes")
            return Page(answer.status, {name.lower(): value for name, value in answer.headers.items()}, content)
        except BaseException as error:
            self.close()
            if isinstance(error, ValueError):  # of a path, a header or a size that http.client cannot read
                raise http.client.HTTPException(str(error)[:100]) from None
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._bounded is not None:
            self._bounded.end()
        self._connection = self._bounded = None

    def _connected(self, until_s: float) -> tuple[http.client.HTTPConnection, _Bounded]:
        if self._connection is not None and self._bounded is not None and self._connection.sock is not None:
            return self._connection, self._bounded
        self.close()
        try:
            sock = socket.create_connection((self._host, self._port), min(CONNECT_S, _left_s(until_s)))
        except TimeoutError:
            raise NotConnected from None
        except UnicodeError as wrong:  # a label of the name that is empty or too long
            raise socket.gaierror(str(wrong)) from None
        try:
            sock.settimeout(_left_s(until_s))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=self._host)
        except BaseException:
            sock.close()
            raise
        self._connection = http.client.HTTPConnection(self._host, self._port)
        self._connection.default_port = 80 if self._tls is None else 443
        self._connection.sock = self._bounded = _Bounded(sock)
        return self._connection, self._bounded


class _Bounded:
    """A socket whose every wait ends at one moment, and which gives no more than so many bytes: http.client counts
    neither heads nor the time between two reads."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self.until_s, self.left_bytes = sock, 0.0, 0

    def makefile(self, *_: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reads(self))

    def sendall(self, data: Any) -> None:
        self._sock.settimeout(_left_s(self.until_s))
        self._sock.sendall(data)

    def receive_into(self, buffer: Any) -> int:
        self._sock.settimeout(_left_s(self.until_s))
        count = self._sock.recv_into(buffer)
        self.left_bytes -= count
        if self.left_bytes < 0:
            raise http.client.HTTPException("it does not end")
        return count

    def close(self) -> None:
        """Nothing: http.client closes it as soon as it knows that an answer is the last, and then reads that answer."""

    def end(self) -> None:
        self._sock.close()


class _Reads(io.RawIOBase):
    """What http.client reads one answer from; its end is not that of the connection."""

    def __init__(self, bounded: _Bounded) -> None:
        self._bounded = bounded

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._bounded.receive_into(buffer)


def _left_s(until_s: float) -> float:
    """Seconds that are left. Raises TimeoutError where none are."""
    if (left_s := until_s - time.monotonic()) <= 0:
        raise TimeoutError("timed out")
    return left_s


CODE = "TL223"
USUAL_KEY = "OPENAI_API_KEY"
PAGE_S = 5.0
BUSY = (429, 502, 503, 504)
PAUSES_S = (0.5, 1.0, 2.0, 4.0)
"""Before what was refused with a status of BUSY is asked for again: one refusal is no reason to measure nothing."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP answer: status, text, and the type that the server gives it."""

    status: int
    text: str
    kind: str

    @property
    def data(self) -> Any:
        """Its JSON; None where it is none."""
        try:
            return json_of(self.text)
        except ValueError:
            return None

    @property
    def is_html(self) -> bool:
        return "html" in self.kind or self.text.lstrip()[:9].lower().startswith(("<!doctype", "<html"))

    @property
    def said(self) -> str:
        """Status and the beginning of what it says, for a sentence."""
        body = "a web page" if self.is_html else in_one_line(self.text, 200)
        return f"HTTP {self.status}: {body}" if body else f"HTTP {self.status}"


class Asker:
    """Asks one server. `key_env`: the variable that holds the key; "": OPENAI_API_KEY, where the server wants a key.

    A key is sent in `header` (as a bearer token in Authorization), to nobody who did not ask for one, and never shown.
    """

    def __init__(self, key_env: str = "", ca_file: str = "", header: str = "Authorization") -> None:
        self.key_env, self._ca_file, self._key_header = key_env, ca_file, header
        self._key = api_key(key_env)

    def ask(self, url: str, body: bytes | None = None, patience_s: float | None = None) -> HttpAnswer:
        """A page, or what comes of a POST, within so many seconds (None: PAGE_S).

        Raises BadInput (TL223) where nothing comes, or where a key is wanted that is not there or not taken.
        """
        patience_s = patience_s or PAGE_S
        page = self._until_taken(url, body, patience_s)
        if page.status == 401 and not self._key and os.environ.get(USUAL_KEY, "").strip():
            self.key_env, self._key = USUAL_KEY, api_key(USUAL_KEY)
            page = self._until_taken(url, body, patience_s)
        if page.status not in (401, 403):
            return page
        if self._key:
            raise _no(f"{url} refuses the key in {self.key_env} ({page.said})")
        raise _no(
            f"{url} wants a key (HTTP {page.status}): put it into the environment variable {USUAL_KEY}, or name "
            "another variable with --key-env"
        )

    def _until_taken(self, url: str, body: bytes | None, patience_s: float) -> HttpAnswer:
        for pause_s in PAUSES_S:
            page = self._once(url, body, patience_s)
            if page.status not in BUSY:
                return page
            time.sleep(pause_s)
        return self._once(url, body, patience_s)

    def _once(self, url: str, body: bytes | None, patience_s: float) -> HttpAnswer:
        parts = urlsplit(url)
        try:
            return self._exchanged(parts, body, patience_s)
        except NotConnected:
            where = f"{parts.scheme}://{parts.netloc}"
            raise _no(f"no server answers at {where} within {CONNECT_S:g} s; correct the url") from None
        except TimeoutError:
            asked, where = f"{'POST' if body else 'GET'} {parts.path}", f"{parts.scheme}://{parts.netloc}"
            raise _no(
                f"{where} takes connections and does not answer {asked} within {patience_s:g} s: it hangs, or is "
                "still starting; try again when it is ready"
            ) from None
        except ssl.SSLError as error:
            raise _no(f"{url}: {_of_tls(error)}") from None
        except socket.gaierror as error:
            raise _no(f"the host of {url} is not known: {error.strerror or error}") from None
        except OSError as error:
            why = error.strerror or str(error)
            raise _no(f"no server answers at {url} ({why}); start it, or correct the url") from None
        except http.client.HTTPException as error:
            why = in_one_line(str(error) or type(error).__name__, 100)
            raise _no(
                f"what answers at {url} does not speak HTTP ({why}); correct the port, or write https://"
            ) from None

    def _exchanged(self, parts: SplitResult, body: bytes | None, patience_s: float) -> HttpAnswer:
        headers = {"User-Agent": f"twinlens/{__version__}", "Accept-Encoding": "identity"}
        if self._key:
            headers |= key_header(self._key_header, self._key)
        if body is not None:
            headers["Content-Type"] = "application/json"
        is_tls = parts.scheme == "https"
        port = parts.port or (443 if is_tls else 80)
        client = PageClient(parts.hostname or "", port, tls_context(self._ca_file) if is_tls else None)
        try:
            page = client.ask(parts.path, headers, patience_s, body)
        finally:
            client.close()
        if page.status in (301, 302, 307, 308):
            target = in_one_line(page.headers.get("location") or "elsewhere", 200)
            raise _no(f"{parts.geturl()} redirects to {target}; give the address that it goes to")
        return HttpAnswer(page.status, page.body.decode("utf-8", "replace"), page.headers.get("content-type", ""))


def _of_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate cannot be checked ({error.verify_message}); name its authority: "
            "--set executor.options.ca_file=FILE"
        )
    return "what answers there speaks no TLS; write http://"


def _no(sentence: str) -> BadInput:
    return BadInput(sentence, code=CODE)
