"""`/packs/{id}`: an evidence pack below the folders as a page, by the readers of `show` and `evidence`; read only.

What is told is the report of its runs, and what its checksums and its signature say. Whether the figures follow from
the rows takes longer, and is a command.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from twinlens.errors import TwinlensError
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Document, Line, Section
from twinlens.web.page import Answer, respond
from twinlens.web.runs.index import Found, index_of
from twinlens.web.runs.report import document_of

_KEPT = 3
_made: OrderedDict[tuple[str, int, int], Opened] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Opened:
    """A pack as a document, with the same as plain data."""

    title: str
    document: Document
    json: Any


async def pack_page(request: web.Request) -> web.Response:
    found = index_of(request).find(request.match_info["id"])
    if found is None or found.kind != "pack":
        raise web.HTTPNotFound(text="there is no such pack below the folders of this site (any more)")
    opened = await asyncio.to_thread(opened_of, found)
    answer = Answer(
        opened.title,
        document=opened.document,
        above="pack_above.html.j2",
        values={"found": found},
        json=lambda: opened.json,
        command=("twinlens", "show", found.path),
        python=f"import twinlens as tl\n\ntl.verify({found.path!r})\ntl.read({found.path!r})",
        styles=("runs.css",),
    )
    return respond(request, answer)


def opened_of(found: Found) -> Opened:
    """The report of the runs in a pack; a sentence where it is none. Its runs are unpacked by the reader of packs, into
    a folder of this process alone."""
    path = Path(found.path)
    try:
        seen = path.lstat()
        key = (found.path, seen.st_mtime_ns, seen.st_size)
        if key not in _made:
            _made[key] = _open(path)
            while len(_made) > _KEPT:
                _made.popitem(last=False)
        return _made[key]
    except (TwinlensError, OSError, ValueError, ArithmeticError, LookupError, TypeError, RecursionError) as error:
        said = clean(getattr(error, "strerror", None) or error, 600)
        return Opened(clean(path.name, 100), Document.of("Pack", "", [Line(said)]), {"error": said})


def _open(path: Path) -> Opened:
    from twinlens.api.runs import answer_at, as_json, read
    from twinlens.pack.check import check_pack
    from twinlens.reporting.judging.evidence import checked_document

    checked = checked_document(check_pack(path))
    box = Section("What its checksums and its signature say", checked.blocks, level=2, anchor="check")
    if (found := answer_at([path])) is not None:
        told = found.document()
        return Opened(f"Pack: {told.title}", replace(told, blocks=(*told.blocks, box)), found.to_json())
    runs = read(path, skip_broken=True)
    shown, document = document_of(runs)
    data = as_json(runs)
    for run in runs:
        run.forget_rows()
    return Opened(f"Pack: {shown.title}", replace(document, blocks=(*document.blocks, box)), data)
