"""One answer, in every form that a page offers: the page, JSON, one file, Markdown, and how to ask for it elsewhere."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from twinlens.reporting.display import clean
from twinlens.reporting.document import environment as documents
from twinlens.reporting.document.block import Document
from twinlens.reporting.document.html import fragment
from twinlens.version import __version__
from twinlens.web.door import FORM
from twinlens.web.place import place_of

NAVIGATION = (("/", "Home"), ("/runs", "Runs"), ("/compare", "Compare"), ("/plan", "Plan"), ("/claim", "Claims"),
              ("/lab", "Batching lab"), ("/measure", "Measure"), ("/chat", "Chat"), ("/gateway", "Gateway"),
              ("/explain", "Words"))  # fmt: skip
MEANING = "/explain/"
AS = "as"
"""The word of an address that asks for another form of the same answer: json, html, markdown."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page shows. `above`, `below`: templates of its own around the document, with their `values`.

    `json`: the same as plain data. `command`: words of the command line that ask it; `python`: the same in Python.
    `scripts`, `styles`: modules and style sheets of `static` that it loads.
    """

    title: str
    document: Document | None = None
    above: str = ""
    below: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    json: Callable[[], Any] | None = None
    command: Sequence[str] = ()
    python: str = ""
    scripts: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    status: int = 200


def respond(request: web.Request, answer: Answer) -> web.Response:
    """The answer in the form that the address asks for."""
    form = request.query.get(AS, "")
    if form == "part":
        return web.json_response(part(request, answer), status=answer.status)
    if form == "json" and answer.json is not None:
        return web.json_response(answer.json(), status=answer.status)
    if form == "html" and answer.document is not None:
        from twinlens.reporting.document.html import html

        headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}
        return web.Response(text=html(answer.document), content_type="text/html", headers=headers)
    if form == "markdown" and answer.document is not None:
        from twinlens.reporting.document.markdown import markdown

        return web.Response(text=markdown(answer.document), content_type="text/markdown")
    return web.Response(text=page(request, answer), content_type="text/html", status=answer.status)


def page(request: web.Request, answer: Answer) -> str:
    """The whole page: the frame of the site around the answer."""
    inner = fragment(answer.document, drawn=False, elsewhere=MEANING) if answer.document is not None else ""
    scripts = (*answer.scripts, *(("charts.js",) if "data-chart" in inner else ()))
    place, made = place_of(request), templates()
    values = {**answer.values, "form_name": FORM, "form_token": place.form, "query": dict(request.query)}
    around = [Markup(made.get_template(each).render(values)) if each else "" for each in (answer.above, answer.below)]
    return made.get_template("frame.html.j2").render(
        answer=answer, above=around[0], inner=Markup(inner), below=around[1], scripts=("base.js", *scripts),
        navigation=[(path, name, _is_here(request.path, path)) for path, name in NAVIGATION], version=__version__,
        others=_others(request, answer), command=shlex.join(answer.command), form_token=place.form,
    )  # fmt: skip


def part(request: web.Request, answer: Answer) -> dict[str, str]:
    """What a page replaces when its form moves: the answer, and how to ask for it elsewhere. `charts=no`: without them,
    since they take longer than the answer."""
    from twinlens.reporting.document.block import Drawing

    found, made = answer.document, templates()
    if found is not None and request.query.get("charts") == "no":
        found = replace(found, blocks=tuple(each for each in found.blocks if not isinstance(each, Drawing)))
    inner = Markup(fragment(found, drawn=False, elsewhere=MEANING)) if found is not None else ""
    values = {"answer": answer, "inner": inner, "others": _others(request, answer),
              "command": shlex.join(answer.command)}  # fmt: skip
    return {
        "document": made.get_template("document_part.html.j2").render(values) if found is not None else "",
        "elsewhere": made.get_template("elsewhere.html.j2").render(values),
        "wrong": str(answer.values.get("wrong", "")),
    }


def _is_here(path: str, entry: str) -> bool:
    return path == entry or (entry != "/" and path.startswith(f"{entry}/"))


def _others(request: web.Request, answer: Answer) -> list[tuple[str, str]]:
    """Addresses of the same answer in other forms, and their names."""
    forms = [("json", "JSON")] if answer.json is not None else []
    forms += [("html", "one HTML file"), ("markdown", "Markdown")] if answer.document is not None else []
    kept = [(name, value) for name, value in request.query.items() if name not in (AS, "charts", "token")]
    return [(f"{request.path}?{urlencode([*kept, (AS, form)])}", name) for form, name in forms]


@lru_cache(maxsize=1)
def templates() -> Environment:
    """Ours and those of documents, with everything foreign escaped."""
    ours = documents.environment().overlay()
    assert ours.loader is not None
    ours.loader = ChoiceLoader([PackageLoader("twinlens.web"), ours.loader])
    ours.filters = {**ours.filters, "printable": clean}
    return ours
