"""Discovery of a server that is already up: who it is and what it accepts, asked once before the measurement.

All of it is declared: an HTTP server cannot be looked into. `/v1/models`, `/version` (vLLM), `/server_info` (vLLM,
SGLang), `/get_server_info` (SGLang), `/props` (llama.cpp), `/info` (TGI), the Server header, and one short answer.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twinlens.errors import ExecutorFailed
from twinlens.executors.http_client.answer.ended import Ended
from twinlens.executors.http_client.connection import Address
from twinlens.executors.http_client.event_loop import EventLoop
from twinlens.executors.openai.request_writer import RequestWriter, page_request
from twinlens.executors.openai.row import in_one_piece, row_of
from twinlens.executors.openai.target import Target
from twinlens.record.request import Request
from twinlens.record.trust.foreign_text import all_whole
from twinlens.schedule.content.prompt import Words
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.study import RunSpec

_ABOUT = ("/version", "/server_info", "/get_server_info", "/props", "/info")
_PATIENCE_S, _FIRST_ANSWER_S = 5.0, 60.0
_MOST_BYTES = 2**20
_PROBE = ScheduledRequest(0, 0, 0, input_tokens=8, output_tokens=4, seed=(0x7717, 0))
_UNFIT = (400, 422)


@dataclass(frozen=True, slots=True)
class Discovery:
    """`about`: JSON answers by path. `row`: that of the one request asked before, None where none was."""

    address: Address
    model: str
    forces_length: bool
    takes_stream_options: bool
    about: Mapping[str, Any] = field(default_factory=dict)
    server_header: str = ""
    row: Request | None = None
    has_usage: bool = False
    has_stamps: bool = False
    in_one_piece: bool = False


def find_out(target: Target, words: Words, spec: RunSpec) -> Discovery:
    """Connect, read what the server says of itself, and try which fields it takes. Raises ExecutorFailed (TL302)."""
    address = reachable(target)
    about, server = _about(target, address)
    model = target.model or _first_model(about) or spec.workload.model
    plain = Discovery(address, model, target.force_length is True, True, about, server)
    return _tried(target, words, plain, _patience_s(target, spec)) if target.probe else plain


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


def _about(target: Target, address: Address) -> tuple[dict[str, Any], str]:
    begin_s = time.monotonic()
    status, header, models = _get(target, address, target.path + "/models")
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
        status, _, content = _get(target, address, path)
        if status == 200 and content is not None:
            about[path] = content
    return about, header


def _get(target: Target, address: Address, path: str) -> tuple[int, str, Any]:
    """Status (0: none), Server header and JSON (None: none) of one page. By our own loop: http.client is not small."""
    ended, _ = _asked(target, address, page_request(target, path), _PATIENCE_S)
    try:
        content = all_whole(json.loads(ended.body)) if ended.status == 200 else None
    except (ValueError, RecursionError):
        content = None
    return ended.status, ended.headers.get("server", ""), content


def _first_model(about: Mapping[str, Any]) -> str:
    listed = about.get("/models")
    entries = listed.get("data") if isinstance(listed, dict) else None
    if isinstance(entries, list) and entries and isinstance(entries[0], dict):
        return str(entries[0].get("id", ""))
    return ""


def _patience_s(target: Target, spec: RunSpec) -> float:
    """How long the first answer may take: of a server that is up, a minute, unless the spec says how long any may."""
    is_up, says = "url" in spec.executor.options, "timeout_s" in spec.executor.options
    return min(target.timeout_s, _FIRST_ANSWER_S) if is_up and not says else target.timeout_s


def _tried(target: Target, words: Words, plain: Discovery, patience_s: float) -> Discovery:
    """Ask once, with as many of the useful fields as the server takes."""
    force = [True, False] if target.force_length is None else [target.force_length]
    ways = [(forced, True) for forced in force] + [(force[-1], False)]
    for forced, usage in ways:
        requests = RequestWriter(target, words, plain.model, force_length=forced, with_usage=usage)
        ended, has_stamps = _asked(target, plain.address, requests.of(_PROBE), patience_s)
        row = row_of(_PROBE, ended, ended.sent_ns)
        if row.outcome in ("ok", "cut_off"):
            counted = ended.answer.usage is not None
            return Discovery(plain.address, plain.model, forced, usage, plain.about, plain.server_header, row, counted,
                         has_stamps, in_one_piece(ended))  # fmt: skip
        if ended.status not in _UNFIT:
            break
    hint = ""
    if ended.status == 404 and not target.path.endswith("/v1"):
        hint = f'; is /v1 missing? write executor.options.url="{target.url}/v1"'
    raise ExecutorFailed(f"{target.url} does not answer a short request: {row.error}{hint}", code="TL302")


def _asked(target: Target, address: Address, payload: bytes, timeout_s: float) -> tuple[Ended, bool]:
    """The outcome of one request, and whether the kernel stamps what comes."""
    loop = EventLoop(address, timeout_ns=round(timeout_s * 1e9), most_bytes=_MOST_BYTES, stamps=target.kernel_stamps)
    try:
        loop.start(1, payload)
        while not (ended := loop.wait(None)):
            pass
        return ended[0], loop.counts.unstamped_connections == 0
    finally:
        loop.close()
