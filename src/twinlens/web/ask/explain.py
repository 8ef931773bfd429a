"""Words: every page that `twinlens explain` prints, found by its words and read as a page."""

from __future__ import annotations

import asyncio
import posixpath
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from aiohttp import web
from markupsafe import Markup

from twinlens.web.ask.words import STYLES
from twinlens.web.page import Answer, respond

_MOST_FOUND = 60


async def search(request: web.Request) -> web.Response:
    """All pages by kind, or those that hold some words."""
    return await asyncio.to_thread(_search, request)


async def word(request: web.Request) -> web.Response:
    """One page."""
    return await asyncio.to_thread(_word, request, request.match_info["word"])


def _search(request: web.Request) -> web.Response:
    from twinlens.pages import KINDS, find, first_paragraph, names

    asked = " ".join(request.query.get("find", "").split())[:100]
    if asked:
        found = [(page.name, page.title, first_paragraph(page)) for page in _holding(asked)]
        kinds: list[tuple[str, Any]] = []
    else:
        found = []
        kinds = [(kind, [(name, find(name).title) for name in names(kind)]) for kind in KINDS]
    values = {"asked": asked, "found": found[:_MOST_FOUND], "count": len(found), "kinds": kinds}
    return respond(request, Answer("What does it mean?", above="words.html.j2", styles=STYLES, values=values,
                                   command=("twinlens", "explain"),
                                   json=lambda: [{"word": name, "title": title} for name, title, _ in found]
                                   or {kind: [name for name, _ in members] for kind, members in kinds}))  # fmt: skip


def _holding(asked: str) -> list[Any]:
    """Pages with these words: in their names first, then in their titles, then in their text."""
    from twinlens.pages import KINDS, find, names

    plain, pages = asked.casefold(), [find(name) for kind in KINDS for name in names(kind)]
    places = [(page, (page.name, *page.also), page.title, page.text) for page in dict.fromkeys(pages)]
    ranked = [(0 if any(plain in each.casefold() for each in own) else 1 if plain in title.casefold() else 2, page)
              for page, own, title, text in places
              if plain in f"{' '.join(own)} {title} {text}".casefold()]  # fmt: skip
    return [page for _, page in sorted(ranked, key=lambda each: (each[0], each[1].name))]


def _word(request: web.Request, asked: str) -> web.Response:
    from twinlens.api.reference import explain

    text = str(explain(asked))
    title = text.partition("\n")[0].removeprefix("# ").strip()
    values = {"text": Markup(_html(text.partition("\n")[2]))}  # our own page, escaped by the renderer
    return respond(request, Answer(
        title, above="word.html.j2", styles=STYLES, values=values, command=("twinlens", "explain", asked),
        python=f"import twinlens as tl\n\ntl.explain({asked!r})", json=lambda: {"word": asked, "text": text},
    ))  # fmt: skip


def _html(text: str) -> str:
    """Markdown of ours as HTML: raw HTML stays text, links go to pages of this site, and tables can be scrolled."""
    made: str = _renderer().render(text)
    return made.replace("<table>", '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>').replace(
        "</table>", "</table></div>"
    )


@lru_cache(maxsize=1)
def _renderer() -> Any:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    plain_link = made.renderer.renderToken  # type: ignore[attr-defined]

    def link(tokens: Any, place: int, options: Any, _: Any) -> str:
        token = tokens[place]
        token.attrSet("href", _address(str(token.attrGet("href") or "")))
        return str(plain_link(tokens, place, options, {}))

    made.renderer.rules["link_open"] = link  # type: ignore[attr-defined]
    return made


def _address(link: str) -> str:
    """A link to another of our Markdown pages as the address of its page here; others as they are."""
    path, _, place = link.partition("#")
    if "://" in path or not path.endswith(".md"):
        return link
    name = posixpath.basename(path).removesuffix(".md")
    return f"/explain/{quote(name)}" + (f"#{place}" if place else "")
