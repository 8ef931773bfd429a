"""A site as a browser asks it: pages by GET, forms with their token and their origin."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from twinlens.web.door import FORM, FORM_HEADER


@dataclass(frozen=True, slots=True)
class Site:
    """`url` ends in "/"; `token` goes with forms."""

    url: str
    token: str

    def get(self, path: str) -> tuple[int, str]:
        """Status and body."""
        status, _, body = _asked(self.url, path, "GET", None, {})
        return status, body

    def post(self, path: str, fields: Mapping[str, str], accept: str = "*/*") -> tuple[int, dict[str, str], str]:
        """Status, headers and body of a form of this site."""
        body = urlencode({FORM: self.token, **fields})
        kind = "application/x-www-form-urlencoded"
        headers = {"Origin": self.url.rstrip("/"), "Content-Type": kind, "Accept": accept}
        return _asked(self.url, path, "POST", body, headers)

    def send(self, path: str, data: object) -> tuple[int, dict[str, str], str]:
        """Status, headers and body of JSON that a script of this site sends."""
        return _asked(self.url, path, "POST", json.dumps(data), self._of_script())

    def send_raw(self, path: str, body: str) -> tuple[int, str]:
        """Status and body of whatever is sent as JSON."""
        status, _, answer = _asked(self.url, path, "POST", body, self._of_script())
        return status, answer

    def open(self, path: str, data: object) -> http.client.HTTPResponse:
        """The same, to be read as it comes; closing it closes the connection."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        connection.request("POST", path, body=json.dumps(data), headers={**self._of_script(), "Connection": "close"})
        return connection.getresponse()

    def _of_script(self) -> dict[str, str]:
        return {"Origin": self.url.rstrip("/"), "Content-Type": "application/json", FORM_HEADER: self.token,
                "Accept": "application/json"}  # fmt: skip


def site_at(url: str) -> Site:
    """The site at an address, with the token that its pages hold."""
    page = _asked(url, "/jobs", "GET", None, {})[2]
    found = re.search(r'name="twinlens-form" content="([^"]+)"', page)
    assert found is not None
    return Site(url, found[1])


def _asked(
    url: str, path: str, method: str, body: str | None, headers: Mapping[str, str]
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request(method, path, body=body, headers=dict(headers))
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()
