"""Questions of a page to servers of models: whom, what, how, how many at once; checked before anybody is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.errors import BadInput
from twinlens.gateway.address import address_of

CODE = "TL273"
MOST_AT_ONCE = 64
_MOST_LETTERS, _MOST_TURNS, _MOST_TOKENS = 200_000, 200, 32_768
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One question to one server. `key`: kept in memory, in no text of this value. `at_once`: how many of the same."""

    url: str
    model: str
    messages: tuple[tuple[str, str], ...]
    temperature: float
    max_tokens: int
    seed: int | None
    at_once: int
    price_in: float | None = None
    price_out: float | None = None
    key: str = ""

    def __repr__(self) -> str:
        return f"<Wanted of {self.url}>"

    def body(self, endpoint: str) -> dict[str, Any]:
        """The request of an endpoint of the API: "chat", or "completions" of the last text alone."""
        said: dict[str, Any] = {"prompt": self.messages[-1][1]}
        if endpoint == "chat":
            said = {"messages": [{"role": role, "content": text} for role, text in self.messages]}
        fields = {"model": self.model, **said, "temperature": self.temperature, "max_tokens": self.max_tokens,
                  "stream": True, "stream_options": {"include_usage": True}}  # fmt: skip
        return fields if self.seed is None else fields | {"seed": self.seed}


def wanted_of(data: Any) -> Wanted:
    """From the JSON of the page. Raises BadInput (TL271 for the address, TL273 for the rest)."""
    if not isinstance(data, Mapping):
        raise BadInput("a question is a JSON object with url and messages", code=CODE)
    url = str(data.get("url") or "")
    if not url.strip():
        raise BadInput("whom shall it be asked? Write the address of a server that is up", code=CODE)
    return Wanted(
        url=with_api(address_of(url)),
        model=str(data.get("model") or "")[:300],
        messages=_messages(data.get("messages")),
        temperature=_number(data, "temperature", 0.0, 0.0, 2.0),
        max_tokens=int(_number(data, "max_tokens", 256, 1, _MOST_TOKENS)),
        seed=None if data.get("seed") in (None, "") else int(_number(data, "seed", 0, 0, 2**31 - 1)),
        at_once=int(_number(data, "at_once", 1, 1, MOST_AT_ONCE)),
        price_in=_price(data, "price_in"),
        price_out=_price(data, "price_out"),
        key=_key(data.get("key")),
    )


def with_api(url: str) -> str:
    """As far as /v1, which may be left out."""
    after_host = url.partition("://")[2].partition("/")[2]
    return url if after_host else f"{url}/v1"


def _key(value: Any) -> str:
    key = str(value or "").strip()
    if len(key) > 1000 or not key.isascii() or not key.isprintable():
        raise BadInput("a key is up to 1,000 ASCII letters in one line", code=CODE)
    return key


def _messages(value: Any) -> tuple[tuple[str, str], ...]:
    said = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    found = [(str(each.get("role")), str(each.get("content") or "")) for each in said if isinstance(each, Mapping)]
    if not found or not found[-1][1].strip() or any(role not in _ROLES for role, _ in found):
        raise BadInput("what shall be asked? Write a prompt", code=CODE)
    if len(found) > _MOST_TURNS or sum(len(text) for _, text in found) > _MOST_LETTERS:
        raise BadInput(f"a conversation has up to {_MOST_TURNS} turns and {_MOST_LETTERS:,} letters; begin a new one",
                       code=CODE)  # fmt: skip
    return tuple(found)


def _price(data: Mapping[str, Any], name: str) -> float | None:
    return None if data.get(name) in (None, "") else _number(data, name, 0.0, 0.0, 1e6)


def _number(data: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    word = data.get(name)
    if word in (None, ""):
        return default
    try:
        number = float(str(word))
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise BadInput(f"{name} is a number from {least:g} to {most:g}, not {str(word)[:40]!r}", code=CODE)
    return number
