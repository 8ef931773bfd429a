"""Who may enter the site: its own name, its own forms, its token; and what every answer carries."""

from __future__ import annotations

import http.client
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from twinlens.web.door import COOKIE, FORM_HEADER, HEADERS, is_own_name
from twinlens.web.place import Place


def asked(url: str, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    """Status, headers and body, with headers exactly as given (`_` for `-`)."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()


@pytest.fixture(scope="module")
def url(served, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with served(tmp_path_factory.mktemp("runs")) as found:
        yield found


def test_every_answer_carries_the_strict_policy_errors_too(url: str) -> None:
    for path in ("/", "/nowhere", "/static/style.css", "/static/../server.py"):
        _, headers, _ = asked(url, path)
        assert {name: headers[name] for name in HEADERS} == HEADERS
    assert "unsafe-eval" not in HEADERS["Content-Security-Policy"]


def test_another_name_of_this_address_is_refused(url: str) -> None:
    """A page of another site whose name is pointed at loopback would read everything else."""
    status, _, body = asked(url, Host=f"rebound.example:{urlsplit(url).port}")
    assert status == 421
    assert "under its own address" in body


@pytest.mark.parametrize("origin", [None, "http://elsewhere.example", "null"])
def test_a_form_of_another_site_is_refused(url: str, origin: str | None) -> None:
    status, _, body = asked(url, "/runs", "POST", **({"Origin": origin} if origin else {}))
    assert status == 403
    assert "another site" in body


def test_a_form_without_this_servers_token_is_refused(url: str) -> None:
    headers = {"Origin": url.rstrip("/"), FORM_HEADER: "guessed"}
    status, _, body = asked(url, "/runs", "POST", **headers)
    assert status == 403
    assert "load it again" in body


def test_beyond_loopback_only_the_token_lets_in(served, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with served(tmp_path, token="sesame") as url:
        port = urlsplit(url).port
        assert asked(url)[0] == 403
        assert asked(url, "/?token=guessed")[0] == 403
        status, headers, _ = asked(url, "/?token=sesame")
        assert status == 200
        assert "HttpOnly" in headers["Set-Cookie"]
        assert asked(url, Cookie=f"{COOKIE}-{port}=sesame")[0] == 200


@pytest.mark.parametrize(
    ("host", "token", "is_own"),
    [
        ("127.0.0.1:80", "", True),
        ("[::1]:80", "", True),
        ("localhost:80", "", True),
        ("localhost:81", "", False),
        ("10.0.0.7:80", "", False),
        ("10.0.0.7:80", "sesame", True),
        ("rebound.example:80", "sesame", False),
        ("127.0.0.1:eighty", "", False),
        ("", "", False),
    ],
)
def test_own_names_are_addresses_and_given_ones_with_the_own_port(host: str, token: str, is_own: bool) -> None:
    assert is_own_name(host, Place((), Path(), 80, token)) is is_own


def test_a_wrong_address_is_one_sentence_as_a_page_and_as_json(url: str) -> None:
    status, _, body = asked(url, "/nowhere?as=json")
    assert status == 404
    assert body.startswith('{"error":')
    status, _, body = asked(url, "/<script>alert(1)</script>")
    assert status == 404
    assert "<script>alert" not in body
