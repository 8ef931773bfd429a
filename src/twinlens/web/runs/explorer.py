"""`/runs`: a table for each lens, newest first, with facets and a search, all of it in the address.

It orders by time and ranks nothing: which run is better is a question that `/compare` answers, or refuses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from twinlens.web.page import Answer, respond
from twinlens.web.place import place_of
from twinlens.web.runs.choice import LENSES, Choice, Chosen, Entry, choose
from twinlens.web.runs.index import Index, Listing, index_of
from twinlens.web.runs.notes import Notes, Said, notes_of
from twinlens.web.runs.reading import Reader
from twinlens.web.runs.row import UNJUDGED

TITLES = {"training": "Training", "inference": "Inference", "collective": "Exchanges between ranks",
          "unreadable": "Cannot be read"}  # fmt: skip
PER_PAGE, FIRST = 50, 15
"""Rows of a page of one lens, and of each lens where several are shown."""
_BUDGET_S = 0.05
"""CPU time that a page takes to read facts nobody has read yet; the thread behind it reads the rest."""
READER = web.AppKey("reader", Reader)


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one lens on this page. `pages`: how many there are; "" for an address that leads nowhere."""

    lens: str
    title: str
    entries: tuple[Entry, ...]
    total: int
    page: int
    pages: int
    whole: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Shown:
    """What the explorer shows. `unread`: runs whose facts are not read yet, which no facet counts."""

    choice: Choice
    chosen: Chosen
    parts: tuple[Part, ...]
    listing: Listing
    unread: int

    @property
    def is_settling(self) -> bool:
        """Whether a moment later it will say more."""
        soon = (UNJUDGED, "running")
        return bool(self.unread) or any(each.row.validity in soon for part in self.parts for each in part.entries)


async def explorer(request: web.Request) -> web.Response:
    choice = Choice.of(request.query)
    shown = await asyncio.to_thread(shown_of, index_of(request), notes_of(request), choice)
    for part in shown.parts:
        for each in part.entries:
            request.app[READER].want(each.found, each.row)
    folders = place_of(request).folders
    answer = Answer(
        "Runs",
        below="runs.html.j2",
        values={"shown": shown, "choice": choice, "folders": [str(each) for each in folders], "unjudged": UNJUDGED},
        json=lambda: as_json(shown),
        styles=("runs.css",),
        command=("twinlens", "list", "runs", "--out", str(folders[0])),
        python=f"import twinlens as tl\n\ntl.list(\"runs\", out={str(folders[0])!r})",
        scripts=("runs.js", *(("renew.js",) if shown.is_settling else ())),
    )  # fmt: skip
    made = respond(request, answer)
    request.app[READER].wake()  # whoever waits for a page goes first
    return made


def shown_of(index: Index, notes: Notes, choice: Choice) -> Shown:
    """The page that a choice asks for; in a thread, as it reads files."""
    listing = index.listing()
    entries = list(_entries(index, listing, notes.all()))
    chosen = choose(choice, entries)
    parts = tuple(_part(index, choice, lens, chosen.by_lens[lens]) for lens in LENSES
                  if lens in chosen.by_lens and choice.lens in ("", lens))  # fmt: skip
    return Shown(choice, chosen, parts, listing, len(listing.runs) - len(entries))


def _entries(index: Index, listing: Listing, said: Mapping[str, Said]) -> Iterator[Entry]:
    """Every run whose facts are known, newest first; a few more are read now."""
    end_s = time.thread_time() + _BUDGET_S
    none = Said()
    for found in listing.runs:
        row = index.kept(found)
        if row is None:
            if time.thread_time() > end_s:
                continue
            row = index.row(found)
        mine = said.get(found.id, none)
        yield Entry(found, row, mine.labels, mine.note)


def _part(index: Index, choice: Choice, lens: str, entries: Sequence[Entry]) -> Part:
    size = PER_PAGE if choice.lens else FIRST
    pages = max(1, -(-len(entries) // size))
    page = min(choice.page, pages) if choice.lens else 1
    shown = tuple(Entry(each.found, index.row(each.found), each.labels, each.note)
                  for each in entries[(page - 1) * size : page * size])  # fmt: skip
    before = choice.address(lens=lens, page=page - 1) if page > 1 else ""
    after = choice.address(lens=lens, page=page + 1) if choice.lens and page < pages else ""
    whole = choice.address(lens=lens, page=1) if not choice.lens else ""
    return Part(lens, TITLES[lens], shown, len(entries), page, pages, whole, before, after)


def as_json(shown: Shown) -> dict[str, Any]:
    return {
        "runs": {part.lens: {"total": part.total, "page": part.page, "pages": part.pages,
                             "rows": [entry_json(each) for each in part.entries]} for part in shown.parts},
        "facets": {
            offer.name: [{"value": value, "runs": count, "chosen": chosen} for value, count, chosen in offer.values]
            for offer in shown.chosen.offers
        },
        "found": len(shown.listing.runs),
        "unread": shown.unread,
        "cut": shown.listing.cut or None,
    }  # fmt: skip


def entry_json(entry: Entry) -> dict[str, Any]:
    row = entry.row
    return {
        "id": entry.found.id,
        "study": entry.found.within or None,
        "lens": row.lens or None,
        "model": row.model,
        "precision": row.precision,
        "executor": row.executor,
        "machine": row.machine,
        "started": row.started or None,
        "validity": row.validity,
        "origin": row.origin,
        "why": row.why or row.doubt or None,
        "sustained": {"metric": row.metric, "value": row.rate, "interval": row.beside or None} if row.rate else None,
        "labels": list(entry.labels),
        "note": entry.note or None,
    }
