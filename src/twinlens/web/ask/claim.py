"""Claims: a sentence in the address, or a page of text that is sent, judged beside its text."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from twinlens.errors import BadInput
from twinlens.web.ask.words import STYLES
from twinlens.web.page import AS, Answer, respond

_MOST_LETTERS = 200_000
_MOST_SENTENCE = 2000
EXAMPLES = (
    "70B Q4 does 45 tok/s on 1.79 TB/s",
    "A 70B model in FP16 needs 140 GB",
    "Llama 3.1 8B serves 2400 tokens/s on one H100 in FP8",
    "Training a 7B model on 2T tokens takes 8.4e22 FLOP",
)


async def sentence(request: web.Request) -> web.Response:
    """A claim in the address."""
    text = request.query.get("says", "").strip()
    return await asyncio.to_thread(_of_sentence, request, text)


async def text(request: web.Request) -> web.Response:
    """A page of text, sent with the form."""
    sent = await request.post()
    words = str(sent.get("page", ""))
    return await asyncio.to_thread(_of_page, request, words)


def _of_sentence(request: web.Request, text: str) -> web.Response:
    if not text:
        return respond(request, Answer("Does it hold?", above="claim.html.j2", styles=STYLES, values=_values("", "")))
    from twinlens.api.judging.claim import claim
    from twinlens.reporting.judging.claim import claim_document

    try:
        if len(text) > _MOST_SENTENCE:
            raise BadInput(f"a sentence has at most {_MOST_SENTENCE:,} letters; paste a page below", code="TL230")
        found = claim(text)
    except BadInput as refused:
        return _refused(request, refused, _values(text, ""))
    return respond(request, Answer(
        "Does it hold?", claim_document(found.judged), above="claim.html.j2", styles=STYLES, values=_values(text, ""),
        json=found.to_json, command=("twinlens", "claim", text),
        python=f"import twinlens as tl\n\ntl.claim({text!r})",
    ))  # fmt: skip


def _of_page(request: web.Request, text: str) -> web.Response:
    from twinlens.api.judging.claims_of_page import claims_of_page

    try:
        if len(text) > _MOST_LETTERS:
            raise BadInput(f"a page has at most {_MOST_LETTERS:,} letters, and this has {len(text):,}", code="TL230")
        found = claims_of_page(text)
    except BadInput as refused:
        return _refused(request, refused, _values("", text))
    return respond(request, Answer(
        "Do they hold?", found.document(), above="claim.html.j2", styles=STYLES, values=_values("", text),
        json=found.to_json,
    ))  # fmt: skip


def _values(said: str, page: str) -> dict[str, Any]:
    return {"said": said, "page": page, "examples": EXAMPLES, "wrong": ""}


def _refused(request: web.Request, refused: BadInput, values: dict[str, Any]) -> web.Response:
    if request.query.get(AS):
        raise refused
    told = values | {"wrong": str(refused), "code": refused.code}
    return respond(request, Answer("Does it hold?", above="claim.html.j2", styles=STYLES, values=told, status=400))
