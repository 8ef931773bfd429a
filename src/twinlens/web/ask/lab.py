"""The batching lab: policies and fleets on the same arrivals in virtual time, side by side under one cursor."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

from aiohttp import web

from twinlens.errors import BadInput, TwinlensError, nearest
from twinlens.web.ask.found import newest, side_of
from twinlens.web.ask.words import CODE, STYLES, Words, command_of, python_of, refuse_file, row_of
from twinlens.web.page import AS, Answer, respond
from twinlens.web.runs.index import Index, index_of

_OFFERED = {
    "spec": "serve-vllm-gpu", "device": "H100", "at": "rate_per_s=4,8", "batching": "continuous,static(8)",
    "seeds": "2", "set": "protocol.duration_s=12",
}  # fmt: skip
"""Shown where nothing was asked: two policies on one GPU, in about a second."""
_FIELDS = ("spec", "like", "device", "devices", "at", "batching", "replicas", "routing", "signal-age", "pools", "link",
           "failing", "slow", "price", "seeds", "set")  # fmt: skip
_MATTER = ("spec", "device", "at", "batching", "replicas", "routing")
_SETTINGS = ("prompt", "answer", "rate", "precision", "device", "protocol.duration_s", "protocol.seed", "max_num_seqs",
             "max_num_batched_tokens", "num_gpu_blocks", "enable_prefix_caching", "enable_chunked_prefill")  # fmt: skip
"""What `--set` may change from a page: no field that names a file."""
_HELP = {
    "set": "prompt=512, answer=256, precision=fp8, max_num_seqs=16, bandwidth*2, protocol.duration_s=30; several.",
}
"""Words of inputs that a page reads in another way than the command line."""
_SCALED = ("bandwidth", "compute", "overhead")
_MOST_SEEDS, _MOST_S = 10, 300.0
_ONE = threading.Lock()
"""One simulation at a time: each takes a processor for seconds."""


async def lab(request: web.Request) -> web.Response:
    """A simulation of the address."""
    return await asyncio.to_thread(_answered, request)


def _answered(request: web.Request) -> web.Response:
    from twinlens.reporting.available import rows_of

    examples = [row["example"] for row in rows_of("examples", Path()) if row["group"] == "serving"]
    said = {name: " ".join(request.query.getall(name)) for name in dict.fromkeys(request.query)}
    said = {name: word for name, word in said.items() if name not in (AS, "charts", "token") and word.strip()}
    shown = said or _OFFERED
    values: dict[str, Any] = {"examples": examples, "said": shown, "wrong": "", "is_example": not said,
                              "open": [_input(each, shown) for each in _MATTER if each != "spec"],
                              "folded": [_input(each, shown) for each in _FIELDS if each not in (*_MATTER, "like")],
                              "runs": newest(index_of(request), tuple(said.get("like", "").split()), "inference"),
                              }  # fmt: skip
    try:
        words = lab_words(shown, examples)
        told = _with_runs(words, index_of(request))
        with _ONE:
            found = _simulated(told)
        tracks = _tracks(found, told)
    except TwinlensError as refused:
        if request.query.get(AS):
            raise
        values |= {"wrong": str(refused), "code": refused.code}
        return respond(request, Answer("Batching lab", above="lab.html.j2", styles=STYLES, values=values, status=400))
    dry = {**told, "dry": True}
    values |= {"tracks": tracks, "tracks_json": json.dumps(tracks)}
    return respond(request, Answer(
        "Batching lab", found.document(), above="lab.html.j2", styles=STYLES, scripts=("lab.js",), values=values,
        json=lambda: {**found.to_json(), "timelines": tracks}, command=command_of("simulate", dry),
        python=python_of("simulate", dry),
    ))  # fmt: skip


def _input(name: str, said: dict[str, str]) -> dict[str, str]:
    """One input of the form: its name, its help and its value."""
    option = next(each for each in row_of("simulate")["options"] if each["field"].rstrip("_") == name.replace("-", "_"))
    told = _HELP.get(name, option["help"].partition("  [")[0])
    return {"name": name, "label": name.replace("-", " "), "help": told, "value": said.get(name, "")}


def lab_words(said: dict[str, str], examples: list[str]) -> Words:
    """Words of the address as those of `simulate`. Raises BadInput: TL231 for an unknown one, TL270 for a file."""
    known = {each["field"].rstrip("_").replace("_", "-"): each for each in row_of("simulate")["options"]}
    words: Words = {}
    for name, word in said.items():
        if name not in _FIELDS:
            raise BadInput(f"the lab has no {name[:40]!r}; {nearest(name, _FIELDS)}", code="TL231")
        if name == "spec" and word not in examples:
            raise BadInput(
                f"the lab plays examples of serving, not {word[:40]!r}; {nearest(word, examples)}", code=CODE
            )
        if name == "device":
            refuse_file(known[name], word)
        parts = tuple(word.split())
        words[known[name]["field"]] = parts if name in ("set", "at", "like") else word
    for each in words.get("set_", ()):
        _refuse_setting(each)
    _refuse_endless(words)
    return words


def _refuse_setting(word: str) -> None:
    name = word.partition("=")[0].partition("*")[0]
    if name not in (*_SETTINGS, *_SCALED):
        raise BadInput(f"a page does not set {name[:40]!r}; {nearest(name, (*_SETTINGS, *_SCALED))}", code=CODE)


def _refuse_endless(words: Words) -> None:
    """Raises BadInput (TL270) for more than somebody waits for in front of a page."""
    seeds = str(words.get("seeds", "2"))
    seconds = [each.partition("=")[2] for each in words.get("set_", ()) if each.startswith("protocol.duration_s=")]
    many = seeds.isdecimal() and int(seeds) > _MOST_SEEDS
    long = any(each.replace(".", "", 1).isdecimal() and float(each) > _MOST_S for each in seconds)
    if many or long:
        raise BadInput(f"a page simulates at most {_MOST_SEEDS} seeds of {_MOST_S:g} s; ask more on the command line",
                       code=CODE)  # fmt: skip


def _with_runs(words: Words, index: Index) -> Words:
    """Folders in place of ids; without a spec, that of the run whose law is learnt: its twin."""
    if "like" not in words:
        return words if "spec" in words else {"spec": _OFFERED["spec"], **words}
    folders = tuple(side_of(index, each) for each in words["like"])
    return {"spec": folders[0].partition("@")[0], **words, "like": folders}


def _simulated(words: Words) -> Any:
    from twinlens.api.simulating.simulate import SimulateResult, simulate

    found = simulate(words["spec"], **{name: word for name, word in words.items() if name != "spec"}, dry=True)
    if not isinstance(found, SimulateResult):
        raise BadInput("the lab plays serving; training is simulated on the command line", code=CODE)
    return found


def _tracks(found: Any, words: Words) -> list[dict[str, Any]]:
    """A timeline of each policy at its highest load, and of the measured run before them where there is one."""
    from twinlens.web.ask.timeline import track

    last = {each.policy: each for each in found.points}
    made = [track(f"{each.policy or 'as asked'} at {each.spec.point.rate_per_s or 0:g}/s", "simulated",
                  each.repeats[0].played.table) for each in last.values()]  # fmt: skip
    return [*_measured(words, found), *made]


def _measured(words: Words, found: Any) -> list[dict[str, Any]]:
    """Measured runs at the same load as a simulated point."""
    from twinlens.api.runs import read
    from twinlens.web.ask.timeline import track

    loads = {each.spec.point.rate_per_s for each in found.points}
    runs = [run for each in words.get("like", ()) for run in read(each.partition("@")[0], skip_broken=True)]
    same = [run for run in runs if run.spec.point.rate_per_s in loads and run.spec.point.rate_per_s is not None]
    return [track(f"{run.id} at {run.spec.point.rate_per_s:g}/s", "measured", run.table) for run in same[:1]]
