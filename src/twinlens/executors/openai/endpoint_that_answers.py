"""Find the endpoint of a server that streams tokens, chat or completions, by one short request to each in turn."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.http_client.answer.events import Answer
from twinlens.executors.http_client.answer.head import Malformed
from twinlens.executors.http_client.answer.sse import Events
from twinlens.executors.openai.page import Asker, HttpAnswer
from twinlens.executors.openai.target import STREAMED

CODE = "TL223"
FIRST_ANSWER_S = 30.0
_NOT_THERE = (404, 405, 501)
_NO_CHAT = re.compile(r"chat[ _]template|not support.{0,20}chat|not a chat model", re.IGNORECASE)
_TOKENS = 4
"""One token may be half a letter, of which nothing is sent."""
_FORCED = {"ignore_eos": True, "min_tokens": _TOKENS}
_EMPTY = "the answer holds no token"


def endpoint_that_answers(url: str, model: str, asker: Asker, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options endpoint and limit_field with which the server streams tokens, as far as they are not the usual ones.

    An endpoint in `options` is the only one tried. Raises BadInput (TL223) where no answer holds a token.
    """
    wanted = str(options.get("endpoint") or "")
    faults = []
    for endpoint in [wanted] if wanted in STREAMED else list(STREAMED):
        limit, page = _asked(url, endpoint, model, asker, options)
        fault = _fault(page)
        if fault == _EMPTY:  # a model may end at once where it is free to: ask as the measurement will
            fault = _fault(
                asker.ask(url + STREAMED[endpoint], _request(endpoint, limit, model, _FORCED), FIRST_ANSWER_S)
            )
        if fault is None:
            usual = {"endpoint": "chat", "limit_field": "max_tokens"}
            accepted = {"endpoint": endpoint, "limit_field": limit}
            return {key: value for key, value in accepted.items() if value != usual[key]}
        faults.append(f"{STREAMED[endpoint]}: {fault}")
        if page.status != 200 and page.status not in _NOT_THERE and not _NO_CHAT.search(page.text):
            break
    raise BadInput(
        f"{url} does not answer a request of {_TOKENS} tokens to {model!r} with a stream of tokens "
        f"({'; '.join(faults)})",
        code=CODE,
    )


def _asked(url: str, endpoint: str, model: str, asker: Asker, options: Mapping[str, Any]) -> tuple[str, HttpAnswer]:
    """The answer, and the name of the limit that was asked with last."""
    limit = str(options.get("limit_field") or "max_tokens")
    page = asker.ask(url + STREAMED[endpoint], _request(endpoint, limit, model), FIRST_ANSWER_S)
    if page.status == 400 and "max_completion_tokens" in page.text and limit != "max_completion_tokens":
        limit = "max_completion_tokens"
        page = asker.ask(url + STREAMED[endpoint], _request(endpoint, limit, model), FIRST_ANSWER_S)
    return limit, page


def _request(endpoint: str, limit: str, model: str, more: Mapping[str, Any] | None = None) -> bytes:
    asked = {"messages": [{"role": "user", "content": "Hi"}]} if endpoint == "chat" else {"prompt": "Hi"}
    return json.dumps({"model": model, **asked, limit: _TOKENS, "stream": True, **(more or {})}).encode()


def _fault(page: HttpAnswer) -> str | None:
    """Why this is no answer with tokens; None where it is one, be it in one piece."""
    if page.status != 200 or page.is_html:
        return page.said
    answer = Answer()
    try:
        _read(page, answer)
    except Malformed as wrong:
        return str(wrong)
    return answer.error or (None if answer.reads else _EMPTY)


def _read(page: HttpAnswer, answer: Answer) -> None:
    body = page.text.encode()
    if body.lstrip()[:1] == b"{":
        answer.take_whole(body, 0)
        return
    events = Events()
    for data in (*events.feed(body), *events.end()):
        answer.take(data, 0)
