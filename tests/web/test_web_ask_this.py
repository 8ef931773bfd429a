"""This machine as a device of plans: probed by a process of its own, when a form of this site asks for it."""

from __future__ import annotations

import http.client
import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from test_web_door import asked

from twinlens.web.ask import this
from twinlens.web.door import FORM

sys.path.insert(0, str(Path(__file__).parents[1] / "planning"))
from test_probed import probe as a_probe

QUESTION = "/plan/fit?model=8B&device=this&users=1"


@pytest.fixture
def url(served, tmp_path: Path):  # type: ignore[no-untyped-def]
    with served(tmp_path) as found:
        yield found


def probed(url: str, monkeypatch: pytest.MonkeyPatch, program: str) -> tuple[int, str, str]:
    """Status, address to go on to and body of a probe by a small program in place of a half minute's work."""
    monkeypatch.setattr(this, "_COMMAND", (sys.executable, "-c", program))
    token = re.search(r'name="twinlens-form" content="([^"]+)"', asked(url, "/plan")[2])
    assert token is not None
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    headers = {"Origin": url.rstrip("/"), "Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/plan/probe", urlencode({FORM: token[1]}), headers)
    answer = connection.getresponse()
    return answer.status, answer.headers.get("Location", ""), answer.read().decode()


def test_before_a_probe_this_machine_is_no_device(url: str) -> None:
    status, _, body = asked(url, QUESTION)
    assert status == 400
    assert "was not probed yet" in body
    assert '<option value="this">' not in body


def test_after_a_probe_it_is_a_device_as_any_other(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = a_probe()
    status, address, _ = probed(url, monkeypatch, f"print({json.dumps(json.dumps(told))})")
    assert (status, address) == (303, this.AFTERWARDS)
    status, _, body = asked(url, QUESTION)
    assert status == 200
    assert '<option value="this">' in body
    assert "--device this" in body
    assert "machine.json" not in body
    assert "Probed 20" in asked(url, "/plan")[2]


def test_a_probe_that_fails_says_its_own_sentence(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, body = probed(url, monkeypatch, "import sys; sys.exit('no <device> here')")
    assert status == 500
    assert "this machine was not probed: no &lt;device&gt; here" in body.lower()
    assert asked(url, QUESTION)[0] == 400


def test_what_a_probe_wrote_goes_with_the_site(served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    made: list[Path] = []
    monkeypatch.setattr(this.tempfile, "mkdtemp", lambda prefix: made.append(tmp_path / prefix) or _folder(made[-1]))
    with served(tmp_path) as url:
        probed(url, monkeypatch, "print('{}')")
        assert [each.name for each in made[0].iterdir()] == ["machine.json"]
    assert not made[0].exists()


def _folder(path: Path) -> str:
    path.mkdir()
    return str(path)
