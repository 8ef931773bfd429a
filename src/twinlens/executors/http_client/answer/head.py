"""The head of an HTTP/1.1 answer: its status, its headers, and what they say of where the body ends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

BEGIN = b"HTTP/1."
SHOWN = 20
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: .*)?", re.DOTALL)
_COUNT = re.compile(r"[0-9]{1,15}")

Frame = Literal["chunked", "length", "close", "none"]


class Malformed(ValueError):
    """What came is not HTTP, not a stream of events, or not JSON; the sentence says which."""


def read_head(head: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers, their names in lower case. Raises Malformed."""
    first, *lines = head.decode("latin-1").split("\r\n")
    found = _STATUS_LINE.fullmatch(first)
    if found is None:
        raise Malformed(f"not HTTP/1.x: it begins {first[:40]!r}")
    headers = {"connection": "close"} if found[1] == "0" else {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise Malformed(f"a header without a colon: {line[:40]!r}")
        name, value = name.strip(" \t").lower(), value.strip(" \t")
        if name == "content-length" and headers.get(name, value) != value:
            raise Malformed(f"two lengths: content-length {headers[name][:20]!r} and {value[:20]!r}")
        headers[name] = value
    return int(found[2]), headers


def frame_of(status: int, headers: Mapping[str, str]) -> tuple[Frame, int]:
    """How the body ends, and how many bytes it has where the head counts them. Raises Malformed."""
    transfer = headers.get("transfer-encoding", "identity").lower()
    length = headers.get("content-length")
    if transfer not in ("identity", "chunked"):
        raise Malformed(f"transfer-encoding {transfer[:20]!r}")
    if length is not None and not _COUNT.fullmatch(length):
        raise Malformed(f"content-length {length[:20]!r}")
    if status in (204, 304):
        return "none", 0
    if transfer == "chunked":
        return "chunked", 0
    return ("close", 0) if length is None else ("length", int(length))


def is_packed(headers: Mapping[str, str]) -> bool:
    """Whether the body is compressed, in a way that can be undone. Raises Malformed."""
    coding = headers.get("content-encoding", "identity").lower()
    if coding in ("gzip", "deflate", "x-gzip"):
        return True
    if coding not in ("", "identity"):
        raise Malformed(f"content-encoding {coding[:20]!r}, which was not asked for")
    return False


def no_http(data: bytes) -> str:
    """Why this is no answer."""
    first = data.split(b"\n", 1)[0]
    return f"not HTTP/1.x: it begins {first[:SHOWN]!r}"
