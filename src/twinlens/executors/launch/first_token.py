"""The first answers of a server that has just become ready: seconds to the first token, cold and then warm."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Mapping
from typing import Any

_PATIENCE_S = 120.0
_PROMPTS = ("one two three four five six seven eight", "nine ten eleven twelve red green blue black")
"""Of one length and without a shared beginning, so that no prefix cache shortens the second."""


def first_tokens(port: int, model: str, endpoint: str) -> dict[str, float]:
    """Seconds to the first token of the first request and of the one after it; what was not answered is left out."""
    names = ("first_token_s", "second_token_s")
    taken = ((name, _ask(port, model, endpoint, prompt)) for name, prompt in zip(names, _PROMPTS, strict=True))
    return {name: seconds for name, seconds in taken if seconds is not None}


def _ask(port: int, model: str, endpoint: str, prompt: str) -> float | None:
    said: dict[str, Any] = {**({"model": model} if model else {}), "max_tokens": 2, "temperature": 0, "stream": True}
    is_chat = endpoint != "completions"
    said |= {"messages": [{"role": "user", "content": prompt}]} if is_chat else {"prompt": prompt}
    path = "/v1/chat/completions" if is_chat else "/v1/completions"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_S)
    begun_s = time.monotonic()
    try:
        connection.request("POST", path, json.dumps(said), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            return None
        for line in answer:
            if line.startswith(b"data:") and _has_token(line[5:].strip()):
                taken_s = time.monotonic() - begun_s
                answer.read()
                return taken_s
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        with contextlib.suppress(OSError):
            connection.close()
    return None


def _has_token(event: bytes) -> bool:
    """Whether an event carries a token: text, or a reason to end; the role alone is none."""
    if event == b"[DONE]":
        return False
    choices = json.loads(event).get("choices") or [{}]
    first: Mapping[str, Any] = choices[0]
    delta: Mapping[str, Any] = first.get("delta") or {}
    return bool(first.get("text") or delta.get("content") or first.get("finish_reason"))
