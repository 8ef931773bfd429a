"""`/gateway`: gateways whose folders are shown, as each wrote its own standing a second ago; read only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiohttp import web

from twinlens.errors import BadInput
from twinlens.gateway.page import gateway_document
from twinlens.gateway.standing import FILE
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Block, Document, Line, Title
from twinlens.system.document import read_json
from twinlens.web.page import Answer, respond
from twinlens.web.place import place_of

_MOST = 16
_NONE = (
    "No gateway has written here. `twinlens gateway CONFIG` keeps its standing in the folder `out` of its file; start "
    "the site with that folder, or one above it."
)


async def gateways(request: web.Request) -> web.Response:
    place = place_of(request)
    found = await asyncio.to_thread(_standings, (*place.folders, place.out))
    documents = await asyncio.to_thread(lambda: [_document(path, plain) for path, plain in found])
    answer = Answer(
        "Gateway",
        document=_joined(documents),
        json=lambda: {"gateways": [plain for _, plain in found]},
        command=("twinlens", "gateway", "gateway.toml"),
    )
    return respond(request, answer)


def _standings(folders: Iterable[Path]) -> list[tuple[Path, Any]]:
    """Each standing below the folders, the newest first; a file that is none is passed over."""
    pattern = f"{Path(FILE).stem}*.json"
    paths = {path for each in folders for at in ("", "*/", "*/*/") for path in each.glob(f"{at}{pattern}")}
    found = []
    for path in sorted(paths)[: 4 * _MOST]:
        try:
            found.append((path, read_json(path)))
        except (OSError, ValueError, BadInput):
            continue
    return sorted(found, key=lambda each: _when(each[1]), reverse=True)[:_MOST]


def _when(plain: Any) -> str:
    return str(plain.get("at_utc", "")) if isinstance(plain, dict) else ""


def _document(path: Path, plain: Any) -> Document:
    try:
        number = path.stem.removeprefix(f"{Path(FILE).stem}-")
        process = f", process {int(number)}" if number.isdigit() else ""
        return gateway_document(plain, f"{path.parent}{process}")
    except (KeyError, TypeError, ValueError, AttributeError):
        said = Line(f"{clean(path.name)} is no standing of a gateway.")
        return Document.of("Gateway", clean(str(path.parent), 200), [said])


def _joined(documents: list[Document]) -> Document:
    if len(documents) == 1:
        return documents[0]
    blocks: list[Block] = [] if documents else [Line(_NONE, is_lead=True)]
    for each in documents:
        blocks += [Title(each.subject), *each.blocks]
    return Document.of("Gateway", "" if not documents else f"{len(documents)} gateways", blocks)
