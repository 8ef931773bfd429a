"""Comparisons: runs chosen by id, the verdict first, and a ledger or a history of the same runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

from twinlens.errors import BadInput, TwinlensError
from twinlens.reporting.document.block import Document
from twinlens.web.ask.found import MOST_RUNS, folder_of, is_alone, newest, side_of
from twinlens.web.ask.words import CODE, STYLES
from twinlens.web.page import AS, Answer, respond
from twinlens.web.runs.index import index_of

VIEWS = {"": "May they be compared, and how far apart are they?", "ledger": "What did each step give?",
         "history": "How did a metric change over time?"}  # fmt: skip
_FLAGS = {"": (), "ledger": ("--ledger",), "history": ("--history",)}


async def compare(request: web.Request) -> web.Response:
    """Runs of the address, compared."""
    return await asyncio.to_thread(_compared, request)


async def diagnose(request: web.Request) -> web.Response:
    """What binds the runs of the address."""
    return await asyncio.to_thread(_diagnosed, request)


def _compared(request: web.Request) -> web.Response:
    query, index = request.query, index_of(request)
    ids = tuple(each for each in query.getall("run", []) if each)
    view, metric = query.get("view", ""), query.get("metric", "").strip()
    values: dict[str, Any] = {"views": VIEWS, "view": view, "metric": metric, "runs": newest(index, ids), "wrong": "",
                              "price": query.get("price_per_hour", ""), "month": query.get("per_month", ""),
                              "is_alone": is_alone(index, ids)}  # fmt: skip
    try:
        if view not in VIEWS:
            raise BadInput(f"there is no view {view[:40]!r}; there are ledger and history", code=CODE)
        if not ids or (values["is_alone"] and not request.query.get(AS)):
            return respond(request, Answer(VIEWS[view], above="compare.html.j2", styles=STYLES, values=values,
                                           command=("twinlens", "compare", "--help")))  # fmt: skip
        if len(ids) > MOST_RUNS:
            raise BadInput(f"{len(ids)} runs are too many for one page; at most {MOST_RUNS} are compared", code=CODE)
        sides = [side_of(index, each) for each in ids]
        document, data, words = _asked(view, sides, metric, values)
    except TwinlensError as refused:
        return _refused(request, refused, "compare.html.j2", values)
    python = ", ".join([*map(repr, sides), *(f"{name}={word!r}" for name, word in words.items())])
    options = [text for name, word in words.items() for text in (f"--{name.replace('_', '-')}", str(word))]
    return respond(request, Answer(
        VIEWS[view], document, above="compare.html.j2", styles=STYLES, values=values, json=data,
        command=("twinlens", "compare", *sides, *_FLAGS[view], *options),
        python=f"import twinlens as tl\n\ntl.{view or 'compare'}({python})",
    ))  # fmt: skip


def _asked(
    view: str, sides: list[str], metric: str, values: dict[str, Any]
) -> tuple[Document, Callable[[], Any], dict[str, Any]]:
    """The document of a view, its data, and the words that it was asked besides the runs."""
    if view == "ledger":
        from twinlens.api.compare import ledger
        from twinlens.reporting.comparing.ledger import ledger_document

        told = {"price_per_hour": values["price"], "per_month": values["month"]}
        words: dict[str, Any] = {name: word for name, word in told.items() if word}
        made = ledger(*sides, **words)
        return ledger_document(made), made.to_json, words
    words = {"metric": metric} if metric else {}
    if view == "history":
        from twinlens.api.history import history
        from twinlens.reporting.comparing.history import history_document

        histories = history(*sides, **words)
        return history_document(histories), lambda: [each.to_json() for each in histories], words
    from twinlens.api.compare import compare as compare_runs
    from twinlens.api.compare import comparison_json

    found = compare_runs(*sides, **words)
    return found.document(), lambda: comparison_json(found), words  # type: ignore[attr-defined]


def _diagnosed(request: web.Request) -> web.Response:
    index = index_of(request)
    ids = tuple(each for each in request.query.getall("run", []) if each)
    values = {"runs": newest(index, ids), "wrong": ""}
    if not ids:
        return respond(request, Answer("What binds it?", above="diagnose.html.j2", styles=STYLES, values=values,
                                       command=("twinlens", "diagnose", "--help")))  # fmt: skip
    from twinlens.api.diagnose import diagnosed, diagnosed_points, diagnosis_json
    from twinlens.api.runs import read
    from twinlens.reporting.judging.diagnosis import diagnoses_document

    try:
        folders = [folder_of(index, each) for each in ids[:MOST_RUNS]]
        runs = read(*folders)
        points = diagnosed_points(runs)
    except TwinlensError as refused:
        return _refused(request, refused, "diagnose.html.j2", values)
    shown = ", ".join(repr(str(each)) for each in folders)
    return respond(request, Answer(
        "What binds it?", diagnoses_document(points), above="diagnose.html.j2", styles=STYLES, values=values,
        json=lambda: diagnosis_json([each for _, each in diagnosed(runs)], points),
        command=("twinlens", "diagnose", *map(str, folders)),
        python=f"import twinlens as tl\n\ntl.diagnose(tl.read({shown}))",
    ))  # fmt: skip


def _refused(request: web.Request, refused: TwinlensError, above: str, values: dict[str, Any]) -> web.Response:
    if request.query.get(AS):
        raise refused
    told = values | {"wrong": str(refused), "code": refused.code}
    return respond(request, Answer("This cannot be answered", above=above, styles=STYLES, values=told, status=400))
