"""Discovery of a server that is already up: who it is and what it accepts, asked once before the measurement.

All of it is declared: an HTTP server cannot be looked into. `/v1/models`, `/version` (vLLM), `/server_info` (vLLM,
SGLang), `/get_server_info` (SGLang), `/props` (llama.cpp), `/info` (TGI), the Server header, and one short answer.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.network.answer.ended import Ended
from twinlens.network.dialect.endpoint import Requests, head_lines
from twinlens.network.dialect.one_answer import TextRequests, dimension_of
from twinlens.network.dialect.openai import RequestWriter
from twinlens.network.event_loop import EventLoop
from twinlens.network.page import BUSY, PAUSES_S
from twinlens.network.target import PATHS, SIMULATED, Address, ApiKind, Target
from twinlens.record.foreign_text import all_whole
from twinlens.record.request import Request
from twinlens.schedule.prompt import Words
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.prompt import Embed, Rerank, Task
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.document import json_of

_ABOUT = ("/version", "/server_info", "/get_server_info", "/props", "/info")
_AS_JSON = {"/server_info": "/server_info?config_format=json"}
"""What a page is asked by where it differs: vLLM writes its settings as one text unless it is asked for JSON."""
_PATIENCE_S, _FIRST_ANSWER_S = 5.0, 60.0
_MOST_BYTES = 16 * 2**20
_UNFIT = (400, 422)


@dataclass(frozen=True, slots=True)
class Discovery:
    """`requests`: writes what the server takes. `about`: JSON answers by path. `row`: that of the one request asked
    before, None where none was. `dimension`: of the vectors of its answer, where it holds some. `simulated`: the header
    by which a simulated server says so; "" without one."""

    address: Address
    model: str
    requests: Requests
    about: Mapping[str, Any] = field(default_factory=dict)
    server_header: str = ""
    row: Request | None = None
    has_usage: bool = False
    has_stamps: bool = False
    dimension: int | None = None
    simulated: str = ""

    @property
    def forces_length(self) -> bool:
        return self.requests.forces_length


def find_out(target: Target, words: Words, spec: RunSpec) -> Discovery:
    """Connect, read what the server says of itself, and try which fields it takes. Raises ExecutorFailed (TL302)."""
    address = reachable(target)
    about, server = about_of(target, address)
    model = target.model or first_model(about) or spec.workload.model
    assert isinstance(spec.workload, InferenceWorkload)
    task = spec.workload.task
    tries = first_tries(target, words, model, task)
    untried = next((each for each in tries if each.forces_length == (target.force_length is True)), tries[0])
    plain = Discovery(address, model, untried, about, server)
    return _tried(target, task, tries, plain, _patience_s(target, spec)) if target.probe else plain


def reachable(target: Target) -> Address:
    """The first of its addresses that takes a connection. Raises ExecutorFailed (TL302)."""
    why = ""
    for address in target.addresses():
        try:
            with socket.socket(address.family, socket.SOCK_STREAM) as sock:
                sock.settimeout(_PATIENCE_S)
                sock.connect(address.sockaddr)
            return address
        except OSError as error:
            why = str(error)
    raise ExecutorFailed(f"no server answers at {target.url} ({why}); start it, or correct the url", code="TL302")


def about_of(target: Target, address: Address) -> tuple[dict[str, Any], str]:
    """What the server says of itself, by page, and its Server header. Raises ExecutorFailed (TL302)."""
    begin_s = time.monotonic()
    status, header, models = get(target, address, target.path + "/models")
    if status in (401, 403):
        raise ExecutorFailed(
            f"{target.url} wants a key (HTTP {status}): put it into an environment variable and name that in "
            "executor.options.api_key_env",
            code="TL302",
        )
    if status == 0 and (time.monotonic() - begin_s) > 0.9 * _PATIENCE_S:
        raise ExecutorFailed(
            f"{target.url} takes connections and does not answer GET {target.path}/models within {_PATIENCE_S:g} s: it "
            "hangs, or is still starting",
            code="TL302",
        )
    about = {"/models": models} if models is not None else {}
    for path in _ABOUT:
        status, _, content = get(target, address, _AS_JSON.get(path, path))
        if status == 200 and content is not None:
            about[path] = content
    return about, header


def get(target: Target, address: Address, path: str) -> tuple[int, str, Any]:
    """Status (0: none), Server header and JSON (None: none) of one page. By our own loop: http.client is not small."""
    ended, _ = asked(target, address, page_request(target, path), _PATIENCE_S)
    try:
        content = all_whole(json_of(ended.body.decode())) if ended.status == 200 else None
    except ValueError:
        content = None
    return ended.status, ended.headers.get("server", ""), content


def page_request(target: Target, path: str) -> bytes:
    """A request for a page of the same server."""
    kept = {name: value for name, value in target.headers().items() if name not in ("Content-Type", "Accept")}
    return f"GET {path} HTTP/1.1\r\n{head_lines(kept)}\r\n".encode("latin-1")


def first_model(about: Mapping[str, Any]) -> str:
    """The first model that `/models` among pages lists; "" without one."""
    listed = about.get("/models")
    entries = listed.get("data") if isinstance(listed, dict) else None
    if isinstance(entries, list) and entries and isinstance(entries[0], dict):
        return str(entries[0].get("id", ""))
    return ""


def _patience_s(target: Target, spec: RunSpec) -> float:
    """How long the first answer may take: of a server that is up, a minute, unless the spec says how long any may."""
    is_up, says = "url" in spec.executor.options, "timeout_s" in spec.executor.options
    return min(target.timeout_s, _FIRST_ANSWER_S) if is_up and not says else target.timeout_s


def _tried(target: Target, task: Task, tries: tuple[Requests, ...], plain: Discovery, patience_s: float) -> Discovery:
    """Ask once, with as many of the useful fields as the server takes."""
    short = short_request(task)
    for requests in tries:
        ended, has_stamps = asked_until_taken(target, plain.address, requests.of(short), patience_s)
        row = requests.row(short, ended, ended.sent_ns)
        if row.outcome in ("ok", "cut_off"):
            said = ended.headers.get(SIMULATED, "")
            found = replace(plain, requests=requests, row=row, has_stamps=has_stamps, simulated=said)
            if isinstance(requests, TextRequests):
                dimension = dimension_of(ended.answer.said or {})
                return replace(found, requests=requests.of_dimension(dimension), dimension=dimension)
            return replace(found, has_usage=ended.answer.usage is not None)
        if ended.status not in _UNFIT:
            break
    hint = ""
    if ended.status == 404 and not target.path.endswith("/v1"):
        hint = f'; is /v1 missing? write executor.options.url="{target.url}/v1"'
    raise ExecutorFailed(f"{target.url} does not answer a short request: {row.error}{hint}", code="TL302")


def asked_until_taken(target: Target, address: Address, payload: bytes, timeout_s: float) -> tuple[Ended, bool]:
    """The outcome of `asked`, again after a while where the server says that it has too much to do now."""
    for pause_s in PAUSES_S:
        ended, has_stamps = asked(target, address, payload, timeout_s)
        if ended.status not in BUSY:
            return ended, has_stamps
        time.sleep(pause_s)
    return asked(target, address, payload, timeout_s)


def asked(target: Target, address: Address, payload: bytes, timeout_s: float) -> tuple[Ended, bool]:
    """The outcome of one request, and whether the kernel stamps what comes."""
    loop = EventLoop(address, timeout_ns=round(timeout_s * 1e9), most_bytes=_MOST_BYTES, stamps=target.kernel_stamps)
    try:
        loop.start(1, payload)
        while not (ended := loop.wait(None)):
            pass
        return ended[0], loop.counts.unstamped_connections == 0
    finally:
        loop.close()


# Requests of a workload's task at an OpenAI server: which endpoint, and the request that is tried first.

_TOKENS = 8
_ENDPOINTS: dict[str, tuple[ApiKind, ...]] = {"embed": ("embeddings",), "rerank": ("rerank", "score")}
_STREAMED: tuple[ApiKind, ...] = ("chat", "completions")


def for_task(target: Target, task: Task) -> Target:
    """The target with the endpoint of the task, where the options name none of its own. Raises BadInput (TL207)."""
    fit = _ENDPOINTS.get(task.kind, _STREAMED)
    if target.endpoint in fit:
        return target
    if target.endpoint != "chat":
        raise BadInput(
            f"executor.options.endpoint {target.endpoint!r} does not fit workload.task.kind = {task.kind!r}, which "
            f"asks {' or '.join(fit)}",
            code="TL207",
        )
    return replace(target, endpoint=fit[0])


def first_tries(target: Target, words: Words, model: str, task: Task) -> tuple[Requests, ...]:
    """Writers of requests, from the one with the most useful fields on: a server may not take them all."""
    if isinstance(task, Embed | Rerank):
        head = head_lines(target.headers() | {"Accept": "application/json"})
        path = target.path + PATHS[target.endpoint]
        return (TextRequests(task, words, path, head, {"model": model, **target.body}),)
    force = [True, False] if target.force_length is None else [target.force_length]
    ways = [(forced, True) for forced in force] + [(force[-1], False)]
    return tuple(RequestWriter(target, words, model, force_length=forced, with_usage=usage) for forced, usage in ways)


def short_request(task: Task) -> ScheduledRequest:
    """A short request of the task, that no request of a run is equal to."""
    texts, query = 1, 0
    if isinstance(task, Embed):
        texts = task.texts
    elif isinstance(task, Rerank):
        texts, query = task.documents, task.query_tokens
    tokens = 0 if isinstance(task, Embed | Rerank) else 4
    return ScheduledRequest(0, 0, 0, input_tokens=query + texts * _TOKENS, output_tokens=tokens, seed=(0x7717, 0))
