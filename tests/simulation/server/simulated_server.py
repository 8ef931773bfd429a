"""A simulated server for tests: laws of milliseconds, and the stock client of Python to ask it with."""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from twinlens.simulation.law import StepLaw, one
from twinlens.simulation.rules import Rules
from twinlens.simulation.server.entry import Settings, serving

LAW = one(0.002, 0.0001)
MESSAGES = [{"role": "user", "content": "please say something of the sea"}]


@contextlib.contextmanager
def simulated(law: StepLaw = LAW, rules: Rules | None = None, **settings: Any) -> Iterator[str]:
    """The address of one, as far as /v1."""
    with serving(law, rules or Rules(), Settings(port=0, **settings)) as url:
        yield url


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The events of a stream, the last one as the text it is."""
        lines = [line.removeprefix("data: ") for line in self.body.decode().split("\n\n") if line]
        assert lines[-1] == "[DONE]"
        return [json.loads(line) for line in lines[:-1]]


def ask(url: str, **body: Any) -> Reply:
    """Chat where there are messages, else completions."""
    return get(url + ("/chat/completions" if "messages" in body else "/completions"), json.dumps(body).encode())


def get(url: str, body: bytes | None = None) -> Reply:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=20) as answer:
            return Reply(answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read())
    except urllib.error.HTTPError as refused:
        return Reply(refused.code, {k.lower(): v for k, v in refused.headers.items()}, refused.read())
