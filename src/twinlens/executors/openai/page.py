"""One page of a server or one short answer, asked for with little patience, with a key only where one is wanted."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from twinlens.errors import BadInput
from twinlens.executors.http_client.page import CONNECT_S, NotConnected, PageClient
from twinlens.executors.openai.target import api_key, key_header, tls_context
from twinlens.record.foreign_text import in_one_line
from twinlens.system.document import json_of
from twinlens.version import __version__

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
