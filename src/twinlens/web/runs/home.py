"""`/`: two lenses side by side, training left and inference right: the newest sustained result of this machine in each.

Nothing joins the two. What was not measured is said, and without any run there are three ways to begin.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from twinlens.reporting.document.block import Beside, Box, Document, Line
from twinlens.spec.precision import Lens
from twinlens.web.page import AS, Answer, respond
from twinlens.web.place import place_of
from twinlens.web.runs.explorer import READER
from twinlens.web.runs.index import Found, Index, index_of
from twinlens.web.runs.panel import kept_panel, panel_of
from twinlens.web.runs.row import UNJUDGED, Row
from twinlens.web.work.job import SERVE, Job, jobs

LENSES: tuple[Lens, ...] = ("training", "inference")
_BUDGET_S = 0.05
_FIRST_S = 0.6
"""As long as the first look waits for figures; what takes longer comes by itself."""
_MOST_LOOKED = 2000
"""Of the newest runs, among which the newest result of each lens is looked for."""
_MOST_OF_STUDY = 60


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest result of a lens: the run that leads to it, with the others of its study. `is_here`: of this machine.

    `running`: a run of this lens that is being measured now. `why`: where none gives a result, what the newest that was
    measured says of itself.
    """

    lens: Lens
    found: Found | None = None
    row: Row | None = None
    runs: tuple[Found, ...] = ()
    is_here: bool = False
    running: Found | None = None
    why: str = ""

    @property
    def opens(self) -> str:
        """The address of the whole result."""
        return f"/runs/{self.found.within or self.found.id}" if self.found else ""

    @property
    def folder(self) -> str:
        """The folder of the whole result; "" without one."""
        if self.found is None:
            return ""
        return os.path.dirname(self.found.path) if self.found.within else self.found.path


async def home(request: web.Request) -> web.Response:
    index = index_of(request)
    request.app[READER].wake()
    newest, total, packs = await asyncio.to_thread(newest_of, index)
    boxes = [kept_panel(each.lens, each.runs) if each.runs else None for each in newest]
    if any(each.runs and box is None for each, box in zip(newest, boxes, strict=True)):
        is_file = request.query.get(AS) in ("html", "markdown")
        made = request.app[READER].soon(lambda: [panel_of(each.lens, each.runs) for each in newest if each.runs])
        await asyncio.wait([asyncio.wrap_future(made)], timeout=None if is_file else _FIRST_S)
        boxes = [kept_panel(each.lens, each.runs) if each.runs else None for each in newest]
    is_unmade = any(each.runs and box is None for each, box in zip(newest, boxes, strict=True))
    shown = tuple(box or _first_words(each) for each, box in zip(newest, boxes, strict=True))
    going = await asyncio.to_thread(_going, place_of(request).out)
    is_settling = is_unmade or any(each.running for each in newest) or going is not None
    has_any = any(each.found for each in newest)
    place = place_of(request)
    answer = Answer(
        "Two lenses, never one",
        document=Document.of("Home", "", [Beside(shown)]) if has_any else None,
        below="home.html.j2",
        values={"newest": newest, "has_any": has_any, "total": total, "is_settling": is_settling, "packs": packs[:20],
                "going": going,
                "folders": [str(each) for each in place.folders], "out": str(place.out)},
        json=lambda: _json(newest, total),
        command=("twinlens", *(("show", *(each.folder for each in newest if each.found)) if has_any else ("demo",))),
        scripts=("renew.js",) if is_settling else (),
        styles=("runs.css",),
    )  # fmt: skip
    return respond(request, answer)


def newest_of(index: Index) -> tuple[list[Newest], int, tuple[Found, ...]]:
    """The newest result of each lens, of this machine before others; how many runs there are, and the packs."""
    listing = index.listing()
    best: dict[str, tuple[int, Found, Row]] = {}
    running: dict[str, Found] = {}
    unfit: dict[str, str] = {}
    end_s = time.thread_time() + _BUDGET_S
    for found in listing.runs[:_MOST_LOOKED]:
        row = index.kept(found)
        if row is None:
            if time.thread_time() > end_s:
                break
            row = index.row(found)
        if row.validity == "running":
            running.setdefault(row.lens, found)
        elif row.validity == "not valid" and row.origin == "measured":
            unfit.setdefault(row.lens, row.why or row.validity)
        rank = 2 * (row.validity in ("valid", "provisional")) + row.is_here if row.may_be_compared else -1
        if rank >= 0 and (row.lens not in best or rank > best[row.lens][0]):
            best[row.lens] = (rank, found, row)
        if all(lens in best and best[lens][0] == 3 for lens in LENSES):
            break
    told = [_newest(lens, best.get(lens), running.get(lens), listing.runs) for lens in LENSES]
    told = [each if each.found else replace(each, why=unfit.get(each.lens, "")) for each in told]
    return told, len(listing.runs), listing.packs


def _newest(lens: Lens, best: tuple[int, Found, Row] | None, running: Found | None, runs: Sequence[Found]) -> Newest:
    if best is None:
        return Newest(lens, running=running)
    _, found, row = best
    mine = [each for each in runs if found.within and each.within == found.within][:_MOST_OF_STUDY] or [found]
    return Newest(lens, found, row, tuple(mine), row.is_here, running)


def _first_words(newest: Newest) -> Box:
    """What is known before anything is computed."""
    title, row = newest.lens.capitalize(), newest.row
    if row is None:
        if newest.running:
            return Box(title, (Line(f"{title} is being measured now."),))
        if newest.why:
            said = f"{title} was measured, and nothing of it is valid. The newest run: {newest.why}."
            return Box(title, (Line(said),))
        other = "inference" if newest.lens == "training" else "training"
        said = f"{title} was not measured here: nothing can be said of it, and {other} says nothing of it."
        return Box(title, (Line(said),))
    if row.validity == UNJUDGED:
        said = (
            f"The newest run, {row.model} at {row.precision}: its rows are being read; its figures come by themselves."
        )
        return Box(title, (Line(said),))
    rate = f"{row.rate or 'no rate'} ({row.beside or 'no interval'})"
    told = f"The newest run, {row.model} at {row.precision}: {rate}, {row.validity}."
    return Box(title, (Line(told), Line("What binds it is being worked out.", "dim")))


def _going(out: Path) -> Job | None:
    """What was started from a page and is not over; servers that are kept up measure nothing."""
    return next((each for each in jobs(out) if each.state == "running" and each.verb != SERVE), None)


def _json(newest: Sequence[Newest], total: int) -> dict[str, Any]:
    def one(each: Newest) -> dict[str, Any] | None:
        if each.row is None or each.found is None:
            return None
        row = each.row
        return {"run": each.found.id, "model": row.model, "precision": row.precision, "machine": row.machine,
                "of_this_machine": each.is_here, "validity": row.validity, "metric": row.metric or None,
                "value": row.rate or None, "interval": row.beside or None}  # fmt: skip

    return {"runs": total} | {each.lens: one(each) for each in newest}
