"""Find an OpenAI server and what it serves, from an address as people write it.

Asked once, before there is a spec, with short limits of time; nothing of it is measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from twinlens.errors import BadInput
from twinlens.network.answer.events import Answer, Events
from twinlens.network.answer.frame import Malformed
from twinlens.network.page import Asker, HttpAnswer
from twinlens.network.target import PATHS, STREAMED, address_of
from twinlens.record.foreign_text import in_one_line

CODE = "TL223"
_VERSION = re.compile(r"/v\d+[a-z]*(/|$)")
_MOST_NAMED = 12


@dataclass(frozen=True, slots=True)
class Located:
    """A server that answers. `options`: those of openai-http that asking it takes; a key by its variable's name."""

    model: str
    options: dict[str, Any]


def locate(address: str, options: Mapping[str, Any], *, streams: bool = True) -> Located:
    """Ask the server at an address, with or without http://, /v1 or the path of an endpoint.

    `streams`: whether it must stream tokens; where not, the first request of the measurement tells what it answers.
    `options`: those of openai-http that were chosen already (model, api_key_env, key_header, endpoint, limit_field,
    ca_file).
    Raises BadInput (TL223) with one sentence for a server that cannot be measured, TL207 for what is no address.
    """
    base, endpoint = _base(address)
    usual = {"api_key_env": "", "ca_file": "", "key_header": "Authorization"}
    asker = Asker(*(str(options.get(name, default)) for name, default in usual.items()))
    url, names, seen = _listed(base, asker)
    model = _known(str(options.get("model") or ""), url, names) or _only(url, names, seen)
    chosen: dict[str, Any] = {**options, "url": url, "model": model}
    named = {"endpoint": endpoint} if endpoint else {}
    if asker.key_env:
        chosen["api_key_env"] = asker.key_env
    if not streams:
        return Located(model, chosen | named)
    return Located(model, chosen | endpoint_that_answers(url, model, asker, {**options, **named}))


def _base(address: str) -> tuple[str, str]:
    """The address as far as the API, and the endpoint that it named, "" without one."""
    text = address.strip()
    text = (text if "://" in text else f"http://{text}").rstrip("/")
    if (parts := address_of(text)) is None:
        raise BadInput(f"--url {address!r} is no address of a server; write http://HOST:PORT/v1", code="TL207")
    if parts.username or parts.password or parts.query:
        raise BadInput(
            "--url may hold no name, password or query: it is stored with the run; put a key into the environment "
            "variable OPENAI_API_KEY, or name another with --key-env",
            code="TL207",
        )
    for endpoint, path in (*PATHS.items(), ("", "/models")):
        if text.endswith(path):
            return text.removesuffix(path).rstrip("/"), endpoint
    return text, ""


def _listed(base: str, asker: Asker) -> tuple[str, tuple[str, ...], list[HttpAnswer]]:
    """The url as far as /v1, the models that it lists, and the pages that were no list."""
    bases = [base] if _VERSION.search(urlsplit(base).path) else [f"{base}/v1", base]
    seen: list[HttpAnswer] = []
    for url in bases:
        page = asker.ask(f"{url}/models")
        names = _names(page.data) if page.status == 200 else None
        if names is not None:
            return url, names, seen
        seen.append(page)
    return bases[0], (), seen


def _names(content: Any) -> tuple[str, ...] | None:
    """Names on a page of models; None where it is no such page."""
    entries = content.get("data") if isinstance(content, dict) else content
    if not isinstance(entries, list):
        return None
    return tuple(str(entry["id"]) for entry in entries if isinstance(entry, dict) and entry.get("id"))


def _known(asked: str, url: str, names: tuple[str, ...]) -> str:
    """The model asked for. One that the server does not list is refused: some servers answer to any name, and the run
    would bear that of a model that nobody measured."""
    if asked and names and asked not in names:
        raise _no(
            f"{url} does not list a model {in_one_line(asked, 80)!r}; it lists {_shown(names)}. A name that a server "
            "takes without listing it goes into a spec file: `twinlens new --url URL -o FILE.toml` writes one to edit"
        )
    return asked


def _only(url: str, names: tuple[str, ...], seen: list[HttpAnswer]) -> str:
    if len(names) == 1:
        return names[0]
    if names:
        raise _no(
            f"{url} serves {len(names)} models: {_shown(names)}; choose one with --model NAME "
            "(or --set executor.options.model=NAME)"
        )
    if not seen:
        raise _no(f"{url} lists no model; load one, or name it with --model NAME")
    if all(page.is_html for page in seen):
        raise _no(f"{url} answers with a web page (HTML) and no OpenAI API; correct the port or the path")
    raise _no(f"{url} has no list of models ({seen[0].said}); correct the url, or name the model with --model NAME")


def _shown(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(in_one_line(name, 80) for name in names[:_MOST_NAMED]) + more


def _no(sentence: str) -> BadInput:
    return BadInput(sentence, code=CODE)


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
