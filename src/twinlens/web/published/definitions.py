"""Definitions as pages of a site: those that a site links to, and those that they link to in turn."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

from twinlens import pages
from twinlens.errors import BadInput
from twinlens.pages import Page

FOLDER = "explain"


@dataclass(frozen=True, slots=True)
class Definition:
    """One page. `path`: of its file below the root of a site; `html`: its text, in which nothing foreign is."""

    path: str
    title: str
    html: str


def path_of(word: str) -> str:
    """Where the page of a metric, a label or a finding is; "" for a word without one."""
    try:
        page = pages.find(word)
    except BadInput:
        return ""
    return _path(page)


def definitions(words: Iterable[str]) -> list[Definition]:
    """The pages of some words with all that they lead to, sorted by their paths."""
    known = {_path(page): page for kind in pages.KINDS for name in pages.names(kind) if (page := pages.find(name))}
    waiting = [path for word in sorted(set(words)) if (path := path_of(word)) in known]
    made: dict[str, Definition] = {}
    while waiting:
        path = waiting.pop()
        if path in made:
            continue
        text, linked = _rendered(known[path], set(known))
        made[path] = Definition(path, known[path].title, text)
        waiting += linked
    return [made[path] for path in sorted(made)]


def _path(page: Page) -> str:
    return f"{FOLDER}/{page.kind}/{page.name}.html"


def _rendered(page: Page, known: set[str]) -> tuple[str, list[str]]:
    """The text as HTML without its title, and the pages that it links to; a link out of the pages becomes text."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(page.text.partition("\n")[2])
    linked: list[str] = []
    for token in tokens:
        token.children = None if token.children is None else _within(token.children, _path(page), known, linked)
    return str(markdown.renderer.render(tokens, markdown.options, {})), linked


def _within(tokens: list[Token], here: str, known: set[str], linked: list[str]) -> list[Token]:
    kept, is_open = [], True
    for token in tokens:
        if token.type == "link_open":
            href = str(token.attrs.get("href", ""))
            target = posixpath.normpath(posixpath.join(posixpath.dirname(here), href.removesuffix(".md") + ".html"))
            if is_open := target in known:
                token.attrs["href"] = posixpath.relpath(target, posixpath.dirname(here))
                linked.append(target)
        if is_open or token.type not in ("link_open", "link_close"):
            kept.append(token)
    return kept
