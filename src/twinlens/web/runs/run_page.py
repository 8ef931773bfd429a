"""`/runs/{id}`: the report of a run or a study as a page; while it is measured, how far it is, at little cost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from twinlens.reporting.display import clean
from twinlens.web.page import Answer, respond
from twinlens.web.runs.choice import Entry
from twinlens.web.runs.explorer import entry_json
from twinlens.web.runs.index import Found, Index, index_of
from twinlens.web.runs.notes import MOST_LABEL, MOST_LABELS, MOST_NOTE, Said, notes_of
from twinlens.web.runs.report import Made, report_of
from twinlens.web.runs.row import Row

_TAIL_BYTES = 400
_ROWS = {"training": "steps", "inference": "requests", "collective": "exchanges"}


@dataclass(frozen=True, slots=True)
class Going:
    """A run that is being measured, or one beside it. `rows`: on disk so far; `since`: how long ago it began."""

    found: Found
    row: Row
    rows: int | None
    since: str


@dataclass(frozen=True, slots=True)
class Page:
    """What the address names: its runs, and either how far they are or their report."""

    found: Found
    row: Row | None
    going: tuple[Going, ...]
    made: Made | None


async def run_page(request: web.Request) -> web.Response:
    index = index_of(request)
    page = await asyncio.to_thread(page_of, index, found_of(request, index))
    found, said = page.found, notes_of(request).all().get(page.found.id, Said())
    made = page.made
    verb = "report" if made is not None and made.points else "show"
    answer = Answer(
        title=made.title if made else f"{clean(found.name, 120)} is being measured",
        document=made.document if made else None,
        above="run_above.html.j2",
        below="run_below.html.j2",
        values={"page": page, "said": said, "most": (MOST_LABELS, MOST_LABEL, MOST_NOTE)},
        json=lambda: _json(page, said),
        styles=("runs.css",),
        command=("twinlens", verb, found.path),
        python=f"import twinlens as tl\n\nruns = tl.read({found.path!r})\ntl.report(runs, \"report.html\")",
        scripts=("renew.js",) if made is None else (),
    )  # fmt: skip
    return respond(request, answer)


def found_of(request: web.Request, index: Index) -> Found:
    """What the address names. Raises HTTPNotFound."""
    id = request.match_info["id"]
    found = index.find(id)
    if found is None or found.kind == "pack":
        raise web.HTTPNotFound(text=f"there is no run {clean(id, 80)!r} below the folders of this site (any more)")
    return found


def page_of(index: Index, found: Found) -> Page:
    """Reads files, so in a thread."""
    runs = [found] if found.kind == "run" else [each for each in index.listing().runs if each.within == found.id]
    rows = [(each, index.row(each)) for each in runs]
    row = rows[0][1] if found.kind == "run" else None
    if any(each.validity == "running" for _, each in rows):
        return Page(found, row, tuple(_going(*each) for each in rows), None)
    return Page(found, row, (), report_of(found, runs))


def _going(found: Found, row: Row) -> Going:
    return Going(found, row, _rows_so_far(found, row) if row.validity == "running" else None, _since(row.started))


def _rows_so_far(found: Found, row: Row) -> int | None:
    """The rows that the checksums beside them count: the end of a small file, and nothing of the rows."""
    from twinlens.record.checksum import marks_path

    path = marks_path(Path(found.path, f"{_ROWS[row.lens]}.arrows"))
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            words = file.read(_TAIL_BYTES).split(b"\n")[-2].split()
        return int(words[2])
    except (OSError, ValueError, IndexError):
        return None


def _since(stamp: str) -> str:
    """ "3 min 12 s" from a time stamp of a record until now; "" for what is none."""
    try:
        began = datetime.strptime(stamp, "%Y-%m-%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return ""
    seconds = max(0, int((datetime.now(UTC) - began).total_seconds()))
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"


def _json(page: Page, said: Said) -> Any:
    beside = {"labels": list(said.labels), "note": said.note or None}
    if page.made is not None:
        return {"id": page.found.id, **beside, "report": page.made.json}
    going: Sequence[Mapping[str, Any]] = [
        entry_json(Entry(each.found, each.row)) | {"rows": each.rows} for each in page.going
    ]
    return {"id": page.found.id, **beside, "runs": going}


async def note(request: web.Request) -> web.Response:
    """Keep what the user says of a run."""
    found, form = found_of(request, index_of(request)), await request.post()
    labels, text = (str(form.get(name, "")) for name in ("labels", "note"))
    await asyncio.to_thread(notes_of(request).put, found.id, labels, text)
    raise web.HTTPSeeOther(f"/runs/{found.id}#notes")
