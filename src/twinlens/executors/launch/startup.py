"""The start of a server as figures: what its model had in the page cache, its weights, and its first two answers."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinlens.executors.launch.options import Settings
from twinlens.executors.launch.recipe import Recipe
from twinlens.system.log import read_log
from twinlens.system.page_cache import cached_share, drop_pages, files_below


def before_start(settings: Settings, folder: Path) -> dict[str, Any]:
    """The share of the model's files in the page cache, from which they are dropped first where that is asked."""
    if settings.drops_page_cache:
        drop_pages(files_below(folder))
    share = cached_share(folder)
    return {} if share is None else {"cached_share": share}


def after_start(recipe: Recipe, settings: Settings, port: int, name: str, log: Path) -> dict[str, Any]:
    """Seconds to load the weights, by the server's log, and to the first two first tokens, by asking."""
    alone = settings.replicas == 1  # else the second request would be the first of another replica
    told = first_tokens(port, name, str(settings.client.get("endpoint", "chat"))) if alone else {}
    loaded = re.findall(recipe.loaded, read_log(log)) if recipe.loaded else []
    return told | ({"weights_s": float(loaded[-1])} if loaded else {})


# The first answers of a server that has just become ready: seconds to the first token, cold and then warm.

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
