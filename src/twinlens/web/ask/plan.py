"""Pages of plans: what there is to ask, and each verb of planning as a form with its answer."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from twinlens.pages.verbs import verbs
from twinlens.record.codec import encode
from twinlens.reporting.document.block import Line
from twinlens.web.ask.quotes import TITLE
from twinlens.web.ask.this import THIS
from twinlens.web.ask.words import STYLES
from twinlens.web.page import AS, Answer, respond
from twinlens.web.runs.index import index_of

QUESTIONS = {
    "fit": "Will it fit?",
    "capacity": "How much does it serve or train, and how fast?",
    "choose": "What should run it?",
    "model": "Which model?",
    "method": "Prompt, retrieval, fine-tuning or from scratch?",
    "check": "Will it work together, before money goes?",
    "cost": "What does it cost?",
    "roi": "Buy, rent or call an API?",
    "checkpoint": "How often should training be saved?",
    "calibrate": "How near do predictions come to my own runs?",
}
"""What people want to know, and the verb that says it."""
ALL = {**QUESTIONS, "quotes": TITLE}
"""With the page that has a form of its own, since it takes texts."""
_TREE = (
    ("I have a model, and think of a machine", ("fit", "capacity", "check")),
    ("I do not know which", ("choose", "model", "method")),
    ("I have to say what it costs", ("cost", "roi", "quotes")),
    ("I train", ("checkpoint",)),
    ("I have measured", ("calibrate",)),
)


async def overview(request: web.Request) -> web.Response:
    """The decision tree: from what one wants to know to the verb."""
    table = verbs()
    tree = [(head, [(each, ALL[each], table[f"plan {each}"]["summary"]) for each in members])
            for head, members in _TREE]  # fmt: skip
    values = {"tree": tree, "this": request.app[THIS]}
    return respond(request, Answer("What do you want to know?", above="plan.html.j2", styles=STYLES, values=values,
                                   command=("twinlens", "plan", "--help")))  # fmt: skip


async def verb(request: web.Request) -> web.Response:
    """A verb's form and its answer."""
    name = request.match_info["verb"]
    if name not in QUESTIONS:
        raise web.HTTPNotFound(text=f"there is no plan of that name; there are {', '.join(QUESTIONS)}")
    return await asyncio.to_thread(_answered, request, name)


def _answered(request: web.Request, short: str) -> web.Response:
    from twinlens.web.ask.asking import ask, known_names  # what plans is heavy: loaded when it is first asked
    from twinlens.web.ask.form import form_of, lists_of
    from twinlens.web.ask.words import row_of

    name = f"plan {short}"
    asked = ask(index_of(request), name, list(request.query.items()), this=request.app[THIS].file)
    is_page = request.query.get(AS, "part") == "part"
    if asked.wrong and not is_page:
        return web.json_response({"error": asked.wrong, "code": asked.code}, status=400)
    known = known_names(is_probed=request.app[THIS].file is not None)
    groups = () if request.query.get(AS) else form_of(row_of(name), asked.verb, asked.words)
    values: dict[str, Any] = {
        "verb": short, "path": request.path, "groups": groups, "lists": lists_of(groups, known),
        "wrong": asked.wrong, "code": asked.code, "is_example": asked.is_example, "summary": verbs()[name]["summary"],
        "others": [(each, ALL[each]) for each in ALL], "measure": _measure(asked.words),
    }  # fmt: skip
    found = asked.found
    document = found.document() if found is not None else None
    values["lead"] = next((each.text for each in document.blocks if isinstance(each, Line)), "") if document else ""
    return respond(request, Answer(
        QUESTIONS[short], document, above="ask.html.j2", styles=STYLES, values=values,
        json=(lambda: encode(found.to_json())) if found is not None else None, command=asked.command,
        python=asked.python, scripts=("ask.js",), status=400 if asked.wrong else 200,
    ))  # fmt: skip


def _measure(words: dict[str, Any]) -> list[tuple[str, str]]:
    """What is known of a spec, as words of the form that measures: one setting a line."""
    at = [
        f"{told}={words[name]}" for name, told in (("rate", "rate_per_s"), ("users", "concurrency")) if words.get(name)
    ]
    told = {"model": "workload.model", "precision": "point.precision"}
    settings = [f"{told[name]}={words[name]}" for name in told if words.get(name)]
    made = [("example", "pretrain" if words.get("train") else "chat")]
    made += [("at", at[0])] if at and not words.get("train") else []
    return [*made, *([("set", "\n".join(settings))] if settings else [])]
