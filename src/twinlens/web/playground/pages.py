"""The page of the playground, its answer without script, and what is kept of a talk or started for one."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from aiohttp import web

from twinlens.errors import BadInput
from twinlens.reporting.display import clean
from twinlens.spec.load import load_example
from twinlens.web.page import Answer, respond
from twinlens.web.place import Place, place_of
from twinlens.web.playground.beside import servers_measured
from twinlens.web.playground.keeping import saved as saved_as_run
from twinlens.web.playground.keeping import spec_text
from twinlens.web.playground.serve import servable, spec_of
from twinlens.web.playground.talk import json_in, kept, note_of, whole_answer
from twinlens.web.playground.wanted import CODE, wanted_of
from twinlens.web.work.job import SERVE, Job, jobs, new_folder, serves, start, starting
from twinlens.web.work.pages import KEY, refuse_taken

_MOST_UP = 2
MODULE = "twinlens.web.playground.serve"
_FIELDS = {"a": "", "b": "", "model_a": "", "model_b": "", "prompt": "", "temperature": "0", "max_tokens": "256",
           "seed": "", "at_once": "1", "price_in": "", "price_out": ""}  # fmt: skip


async def chat(request: web.Request) -> web.Response:
    """The form, and servers that it may be asked of. The address holds all of it but keys and the talk."""
    return await _page(request, {name: request.query.get(name, word) for name, word in _FIELDS.items()})


async def asked_without_script(request: web.Request) -> web.Response:
    """The same page with one answer of the first server."""
    fields = {name: str(word) for name, word in (await request.post()).items()}
    text, last = await whole_answer(await asyncio.to_thread(wanted_of, _question(fields)), place_of(request))
    known = {name: fields.get(name, word) for name, word in _FIELDS.items()}
    return await _page(request, known, text, last)


def _question(fields: dict[str, str]) -> dict[str, Any]:
    message = {"role": "user", "content": fields.get("prompt", "")}
    return {**fields, "url": fields.get("a", ""), "model": fields.get("model_a", ""), "key": fields.get("key_a", ""),
            "messages": [message]}  # fmt: skip


async def _page(
    request: web.Request, fields: dict[str, str], text: str = "", last: dict[str, Any] | None = None
) -> web.Response:
    place = place_of(request)
    up, measured, examples = await asyncio.gather(
        asyncio.to_thread(_up, place), asyncio.to_thread(servers_measured, (*place.folders, place.out)),
        asyncio.to_thread(servable),
    )  # fmt: skip
    if not fields["a"]:  # a server that was started from a page is most likely whom one wants to talk with
        fields = {**fields, "a": next((each["url"] for each in up if each["url"]), "")}
    known = list(
        dict.fromkeys([each["url"] for each in up if each["url"]] + [each for each in measured if "://" in each])
    )
    values = {"fields": fields, "known": known, "up": up, "examples": examples, "text": text, "last": last}
    fields_set = {name: word for name, word in fields.items() if word and word != _FIELDS[name]}
    return respond(request, Answer(
        "Chat", above="playground/chat.html.j2", values=values, scripts=("chat.js",),
        json=lambda: {"servers": known, "started": up, "asked": fields_set, "answer": last},
        command=("twinlens", "measure", "--url", clean(fields["a"], 200) or "http://127.0.0.1:8000/v1"),
    ))  # fmt: skip


def _up(place: Place) -> list[dict[str, str]]:
    """Servers that were started from a page and have not ended."""
    found = [job for job in jobs(place.out) if job.verb == SERVE and job.state == "running"]
    told = [(job, serves(job)) for job in found]
    return [{"job": job.id, "what": job.words[1], "note": note_of(each), **each} for job, each in told]


async def saved(request: web.Request) -> web.Response:
    """A talk as a run, or as a spec: JSON with its address, or the text."""
    data = await json_in(request)
    names = [str(each) for each in data.get("kept", [])][:200] if isinstance(data, dict) else []
    found = kept(names)
    if isinstance(data, dict) and data.get("as") == "spec":
        if not found:
            raise BadInput("nothing of this talk is kept here any more; ask again", code=CODE)
        return web.json_response({"spec": await asyncio.to_thread(spec_text, found)})
    folder = await asyncio.to_thread(saved_as_run, found, place_of(request).out)
    return web.json_response({"run": folder.name, "address": f"/runs/{folder.name}"})


async def served(request: web.Request) -> web.Response:
    """Start the server of an example, as a job of its own, and go to its page."""
    fields = await request.post()
    job = await asyncio.to_thread(_started, place_of(request), str(fields.get("example", "")))
    raise web.HTTPSeeOther(f"/jobs/{job.id}")


def _started(place: Place, name: str) -> Job:
    if name not in [each.name for each in servable()]:
        raise BadInput(f"no server is started from {name[:40]!r}; choose one of those that are offered", code=CODE)
    spec_of(load_example(name))
    environment = {each: word for each, word in os.environ.items() if each != KEY}
    with starting(place.out):
        refuse_taken(place, beside_servers=True)
        if len(_up(place)) >= _MOST_UP:
            sentence = f"{_MOST_UP} servers that were started from a page are up; stop one of them first"
            raise BadInput(sentence, code=CODE)
        folder = new_folder(place.out)
        return start(folder, [SERVE, name, str(folder)], environment, module=MODULE)
