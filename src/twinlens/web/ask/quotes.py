"""Two quotes, pasted: brought to money per million output tokens at the same work, and what is not comparable."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from twinlens.errors import BadInput
from twinlens.web.ask.words import STYLES
from twinlens.web.page import AS, Answer, respond

TITLE = "Which of two quotes is cheaper, at the same work?"
_WORK = {"input": "1024", "output": "256"}
EXAMPLES = (
    'name = "hours of H100"\nper_device_hour = 2.50\ndevices = 8\ntokens_per_s = 5000\ncounts = "output"\n'
    "input_tokens = 1024\noutput_tokens = 256\nutilisation = 0.5\n",
    'name = "an API"\nper_million_input = 0.15\nper_million_output = 0.60\n',
)
"""What a quote looks like: an hour of devices, and a price of tokens."""


async def form(request: web.Request) -> web.Response:
    """Two quotes to begin with, and what they come to."""
    words = {**_WORK, **{name: request.query[name] for name in _WORK if request.query.get(name)}}
    return await asyncio.to_thread(_answered, request, {"one": EXAMPLES[0], "other": EXAMPLES[1], **words}, True)


async def sent(request: web.Request) -> web.Response:
    """Those of the form. They are in no address: a quote is between two people."""
    fields = await request.post()
    said = {name: str(fields.get(name, "")) for name in ("one", "other", *_WORK)}
    return await asyncio.to_thread(_answered, request, said, False)


def _answered(request: web.Request, said: Mapping[str, str], is_example: bool) -> web.Response:
    from twinlens.api.plan.quotes import quotes_of_texts
    from twinlens.record.codec import encode

    work = [text for name in _WORK if said[name] for text in (f"--{name}", said[name])]
    values: dict[str, Any] = {**said, "is_example": is_example, "wrong": ""}
    try:
        found = quotes_of_texts(said["one"], said["other"], input=said["input"] or None, output=said["output"] or None)
    except BadInput as refused:
        if request.query.get(AS):
            raise
        values |= {"wrong": str(refused), "code": refused.code}
        return respond(request, Answer(TITLE, above="quotes.html.j2", styles=STYLES, values=values, status=400))
    return respond(request, Answer(
        TITLE, found.document(), above="quotes.html.j2", styles=STYLES, values=values,
        json=lambda: encode(found.to_json()),
        command=("twinlens", "plan", "quotes", "A.toml", "B.toml", *work),
    ))  # fmt: skip
