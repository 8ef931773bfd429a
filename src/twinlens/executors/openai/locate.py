"""Find an OpenAI server and what it serves, from an address as people write it.

Asked once, before there is a spec, with short limits of time; nothing of it is measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from twinlens.errors import BadInput
from twinlens.executors.openai.endpoint_that_answers import endpoint_that_answers
from twinlens.executors.openai.options import DEFAULTS
from twinlens.executors.openai.page import Asker, HttpAnswer
from twinlens.executors.openai.target import PATHS, address_of
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
    asker = Asker(*(str(options.get(name, DEFAULTS[name])) for name in ("api_key_env", "ca_file", "key_header")))
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
