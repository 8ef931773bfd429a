"""The pages of this room: the form, what it comes to, and the jobs that were started."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from aiohttp import web

from twinlens.errors import BadInput
from twinlens.reporting.display import clean
from twinlens.units import show
from twinlens.web.page import Answer, respond, templates
from twinlens.web.place import Place, place_of
from twinlens.web.work.asked import Asked, asked_of, fields_of, offered, study_of, words_of
from twinlens.web.work.job import (
    SERVE,
    TAKEN,
    Job,
    find_job,
    is_stopping,
    jobs,
    new_folder,
    serves,
    start,
    starting,
    stop,
)
from twinlens.web.work.progress import written_by

KEY = "OPENAI_API_KEY"
"""The variable whose value is sent to any server that wants a key: of the site's own, no page may decide to whom."""


async def measure(request: web.Request) -> web.Response:
    """The forms, and what the study comes to that one of them asks for now. A spec that is pasted comes in the body: it
    may be longer than an address."""
    fields = dict(await request.post() if request.method == "POST" else request.query)
    fields.pop("key", None)
    values: dict[str, Any] = {"refused": None, "planned": None, "hidden": {}}
    answer = partial(Answer, "Measure", above="work/measure.html.j2", values=values,
                     scripts=("measure.js",))  # fmt: skip
    try:
        asked = await asyncio.to_thread(asked_of, fields)
        values |= {"asked": asked, "offered": offered(asked.verb)}
        if not (fields_of(asked).keys() - {"verb"} or asked.verb in ("demo", "burnin")):
            return respond(request, answer(command=("twinlens", "measure", "--help")))
        checked, values["planned"] = await asyncio.to_thread(_checked, asked)
        values["hidden"] = fields_of(asked)
        if checked is not None and checked.refusal is not None:
            values["refused"] = (str(checked.refusal), checked.refusal.code)
    except BadInput as error:
        told = {"error": str(error), "code": error.code}
        values |= {"refused": (str(error), error.code)}
        values.setdefault("asked", Asked())
        values.setdefault("offered", offered("measure"))
        return respond(request, answer(json=lambda: told))
    words = words_of(asked, place_of(request).out)
    shown = None if checked is None else _document(checked)
    plain = checked.to_json if checked is not None else partial(dict, asked=fields_of(asked))
    return respond(request, answer(document=shown, json=plain, command=("twinlens", *words), python=_python(asked)))


def _checked(asked: Asked) -> tuple[Any, str | None]:
    """The check of a study that is measured here, else how much is measured in words. Raises BadInput."""
    study = study_of(asked)
    if study is None:
        return None, None
    if study.executor.kind == "openai-http":
        runs = study.runs()
        return None, f"{len(runs)} run{'' if len(runs) == 1 else 's'}; the server is asked once it starts"
    from twinlens.api.measuring.studies import check

    return check(study, refuse=False), None


def _document(checked: Any) -> Any:
    from twinlens.reporting.judging.check import check_document

    return check_document(checked)


def _python(asked: Asked) -> str:
    if asked.verb != "measure" or asked.text:
        return ""
    given = [repr(asked.example)] if asked.example else []
    given += [f"{name}={word!r}" for name, word in (("url", asked.url), ("model", asked.model), ("at", asked.at),
                                                  ("set_", asked.set_)) if word]  # fmt: skip
    return f"import twinlens as tl\noutcome = tl.measure({', '.join(given)})\ntl.show(outcome.folder)"


async def listed(request: web.Request) -> web.Response:
    """The jobs of this folder of runs, the newest first."""
    found = await asyncio.to_thread(jobs, place_of(request).out)
    values = {"jobs": [_told(each) for each in found]}
    return respond(request, Answer("Work", above="work/list.html.j2", values=values, json=lambda: values["jobs"],
                                   command=("twinlens", "list", "runs")))  # fmt: skip


async def begin(request: web.Request) -> web.Response:
    """Start what the form asks for, one measurement at a time, and go to its page."""
    fields = await request.post()
    job = await asyncio.to_thread(_begun, place_of(request), dict(fields))
    raise web.HTTPSeeOther(f"/jobs/{job.id}")


def _begun(place: Place, fields: Mapping[str, Any]) -> Job:
    asked = asked_of(fields)
    study = study_of(asked)
    environment = {name: value for name, value in os.environ.items() if name != KEY}
    key = str(fields.get("key", "")).strip()
    if key and asked.url:
        environment[KEY] = key
    with starting(place.out):
        refuse_taken(place, beside_servers=study is not None and study.executor.kind == "openai-http")
        folder = new_folder(place.out)
        return start(folder, words_of(asked, place.out, folder), environment)


def refuse_taken(place: Place, *, beside_servers: bool) -> None:
    """Raises BadInput (TL272) while another job measures here: each would slow the other down. `beside_servers`:
    those that were started from a page may be up meanwhile."""
    for job in jobs(place.out):
        if job.state == "running" and not (job.verb == SERVE and beside_servers):
            raise BadInput(f"{' '.join(job.words[:2])} is running since {job.started} (UTC), and two at once would "
                           "disturb each other; wait for its end, or stop it", code=TAKEN)  # fmt: skip


async def watched(request: web.Request) -> web.Response:
    """One job: how it stands, and how it is stopped."""
    job = await _found(request)
    values = await asyncio.to_thread(_standing, place_of(request), job)
    told = values["job"]
    answer = Answer(f"{told['what']}: {job.state}", above="work/job.html.j2", values=values, json=lambda: told,
                    command=() if job.verb == SERVE else ("twinlens", *job.words), scripts=("work.js",))  # fmt: skip
    return respond(request, answer)


async def state(request: web.Request) -> web.Response:
    """The part of that page that changes."""
    values = await asyncio.to_thread(_standing, place_of(request), await _found(request))
    text = templates().get_template("work/state.html.j2").render(values)
    return web.Response(text=text, content_type="text/html", headers={"Cache-Control": "no-store"})


async def stopped(request: web.Request) -> web.Response:
    """Tell a job to stop."""
    job = await _found(request)
    await asyncio.to_thread(stop, job)
    raise web.HTTPSeeOther(f"/jobs/{job.id}")


async def _found(request: web.Request) -> Job:
    job = await asyncio.to_thread(find_job, place_of(request).out, request.match_info["id"])
    if job is None:
        raise web.HTTPNotFound(text="there is no such job in this folder of runs; /work lists those that there are")
    return job


def _standing(place: Place, job: Job) -> dict[str, Any]:
    """What the page of a job shows now."""
    lasted = job.lasted_s
    return {"job": _told(job), "written": written_by(job, place.out), "said": [clean(line, 400) for line in job.said()],
            "lasted": "" if lasted is None else show(lasted, "s"),
            "printed": [] if job.state == "running" else job.printed()}  # fmt: skip


def _told(job: Job) -> dict[str, Any]:
    """A job as plain data."""
    what = " ".join(each for each in job.words[:2] if not each.startswith("--"))
    return {"id": job.id, "verb": job.verb, "what": what, "words": list(job.words), "state": job.state,
            "is_stopping": is_stopping(job), "serves": serves(job)["url"], "exit_code": job.code,
            "started": job.started, "lasted_s": job.lasted_s, "is_over": job.state != "running"}  # fmt: skip
