"""A page for every printed number, label, finding, error and term, as Markdown beside this file.

`metrics/`, `labels/`, `findings/`, `errors/`, `terms/` hold one page a file. A page opens with an optional head between
two lines of `---`, then `# Title`, then one plain paragraph. The head has an `also:` line with the other words that the
page answers to, and the wording of the findings it is about:

    CODE KIND: text                     KIND is sentence, clause or advice (see `reporting/wording/template.py`)
    CODE KIND subject=memory: text      only where the finding says so
    CODE KIND by subject:               the same for many: lines that are set in, each `memory: text`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from twinlens.errors import BadInput, nearest

PageKind = Literal["metrics", "labels", "findings", "errors", "terms"]
KINDS: tuple[PageKind, ...] = get_args(PageKind)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Page:
    """One page. `name` is the file's stem, `also` the other words it answers to, `text` Markdown from the title on."""

    kind: PageKind
    name: str
    title: str
    text: str
    also: tuple[str, ...] = ()


def find(word: str) -> Page:
    """The page of a metric, label, finding, error code or term.

    By exact id first, then by any other word it answers to, then by title; the last two whatever the case.
    Raises BadInput (TL212) with the nearest word.
    """
    asked = word.strip()
    for index in _indexes():
        page = index.get(asked) or index.get(_plain(asked))
        if page is not None:
            return page
    raise refusal(word)


def refusal(word: str, more: Iterable[str] = ()) -> BadInput:
    """The error for a word without a page, which names the nearest one; `more`: words that others have pages for."""
    known = dict.fromkeys((*_words(), *more))
    near = nearest(_plain(word), known)
    hint = "`twinlens explain` names all pages" if near.startswith("known: ") else near
    return BadInput(f"there is no page for {word.strip()[:60]!r}; {hint}", code="TL212")


def names(kind: PageKind) -> tuple[str, ...]:
    """The names of the pages of one kind, sorted."""
    return tuple(page.name for page in _pages() if page.kind == kind)


def index() -> str:
    """The names of all pages by kind, as Markdown: what `explain` answers to."""
    parts = [f"## {kind.capitalize()}\n\n{', '.join(names(kind))}\n" for kind in KINDS]
    return "\n".join(["# Pages\n\n`twinlens explain WORD` prints one of these.\n", *parts])


def first_paragraph(page: Page) -> str:
    """The first paragraph of a page, on one line and without markup: enough for a table or a tooltip."""
    paragraphs = (" ".join(part.split()) for part in page.text.split("\n\n"))
    paragraph = next((part for part in paragraphs if part and not part.startswith("#")), page.title)
    return _plain_text(paragraph)


def section(page: Page, head: str) -> str:
    """The first paragraph under a head of a page, on one line and without markup; "" where it has no such head."""
    _, _, text = page.text.partition(f"\n## {head}\n\n")
    return _plain_text(text.partition("\n\n")[0])


def _plain_text(paragraph: str) -> str:
    return _LINK.sub(r"\1", " ".join(paragraph.split())).replace("`", "").replace("**", "")


def _words() -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for index in _indexes() for key in index))


def _plain(word: str) -> str:
    return " ".join(word.casefold().split())


@lru_cache(maxsize=1)
def _indexes() -> tuple[dict[str, Page], ...]:
    """Words to pages, the closest meaning first: ids, other words, titles. The first page of a word keeps it."""
    by_id: dict[str, Page] = {}
    by_word: dict[str, Page] = {}
    by_title: dict[str, Page] = {}
    for page in _pages():
        by_id.setdefault(page.name, page)
        by_id.setdefault(_plain(page.name), page)
        for word in page.also:
            by_word.setdefault(_plain(word), page)
        by_title.setdefault(_plain(page.title), page)
    return by_id, by_word, by_title


class Wording(NamedTuple):
    """One text of a finding. `kind`: sentence, clause or advice; `where`: what the finding must say for it to stand."""

    kind: str
    where: tuple[str, ...]
    text: str


@lru_cache(maxsize=512)
def wordings(code: str) -> tuple[Wording, ...]:
    """The texts of a finding, in the order of its page; () for a code that no page is about.

    The page of its own name is tried first, so that one sentence reads one file.
    """
    if not _is_code(code):
        return ()
    own = (_own_head(code, kind) for kind in ("findings", "labels"))
    return tuple(next(filter(None, own), ())) or tuple(_heads().get(code, ()))


def own_page(code: str) -> Page | None:
    """The page that has this very code as its name, among findings and labels."""
    kinds: tuple[PageKind, ...] = ("findings", "labels")
    return next((_read(kind, code, source) for kind in kinds if (source := _own_source(code, kind))), None)


def codes() -> tuple[str, ...]:
    """The codes of all findings, sorted."""
    return tuple(sorted(_heads()))


def _own_source(code: str, kind: str) -> str:
    """The source of a page by its exact name; "" where there is none."""
    path = _HERE / kind / f"{code}.md"
    return path.read_text(encoding="utf-8") if _is_code(code) and path.is_file() else ""


def _is_code(code: str) -> bool:
    """Words joined by hyphens: not the label of a run, and not what a file of a stranger may name."""
    return code.replace("-", "").isalnum() and len(code) <= 60


def _own_head(code: str, kind: str) -> list[Wording]:
    head = _split(_own_source(code, kind))[0]
    return [wording for of, wording in _wordings_of(head) if of == code]


@lru_cache(maxsize=1)
def _heads() -> dict[str, list[Wording]]:
    """All texts by code."""
    found: dict[str, list[Wording]] = {}
    for _, entry in _entries():
        for code, wording in _wordings_of(_split(entry.read_text(encoding="utf-8"))[0]):
            found.setdefault(code, []).append(wording)
    return found


def _wordings_of(head: str) -> Iterator[tuple[str, Wording]]:
    code, kind, of = "", "", ""
    for line in head.splitlines():
        key, _, text = (part.strip() for part in line.partition(":"))
        if line.startswith(" "):
            yield code, Wording(kind, (f"{of}={key}",), text)
        elif " " in key:
            code, kind, *where = key.split()
            if where[:1] == ["by"]:
                of = where[1]
            else:
                yield code, Wording(kind, tuple(where), text)


def _split(source: str) -> tuple[str, str]:
    """The head and the text of a page."""
    if not source.startswith("---\n"):
        return "", source
    head, _, text = source.removeprefix("---\n").partition("\n---\n")
    return head, text


def head_of(source: str) -> str:
    """The head of a page as it stands in its source, with both lines of `---`; "" where it has none."""
    return f"---\n{head}\n---\n" if (head := _split(source)[0]) else ""


def _entries() -> Iterator[tuple[PageKind, Path]]:
    for kind in KINDS:
        for entry in sorted((_HERE / kind).iterdir(), key=lambda entry: entry.name):
            if entry.name.endswith(".md"):
                yield kind, entry


@lru_cache(maxsize=1)
def _pages() -> tuple[Page, ...]:
    return tuple(
        _read(kind, entry.name.removesuffix(".md"), entry.read_text(encoding="utf-8")) for kind, entry in _entries()
    )


def _read(kind: PageKind, name: str, source: str) -> Page:
    """A page from its source. Raises ValueError for one without a title: pages ship with the program."""
    head, text = _split(source)
    text = text.strip() + "\n"
    first = text.partition("\n")[0]
    if not first.startswith("# "):
        raise ValueError(f"page {kind}/{name} has no title")
    line = next((line for line in head.splitlines() if line.startswith("also:")), "also:")
    also = tuple(word.strip() for word in line.removeprefix("also:").split(",") if word.strip())
    return Page(kind, name, first.removeprefix("# ").strip(), text, also)
