"""The pages of a simulated server: chat and text completions, models, health, metrics and settings."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from aiohttp import web
from aiohttp.http_writer import StreamWriter

from twinlens.errors import BadInput
from twinlens.network.target import SIMULATED
from twinlens.record.codec import encode
from twinlens.simulation.fits import check_request
from twinlens.simulation.law import StepLaw
from twinlens.simulation.points.run_folder import simulated_of
from twinlens.simulation.rules import Rules
from twinlens.simulation.server.answer import FINGERPRINT, Answer, refusal
from twinlens.simulation.server.asked import Kind, Served, Unfit, read
from twinlens.simulation.server.fault import Fault, Faults
from twinlens.simulation.server.metrics import Metrics
from twinlens.simulation.server.pace import Pace, Stream
from twinlens.simulation.server.replicas import Replicas
from twinlens.system.document import json_of
from twinlens.version import __version__

_MOST_BODY_BYTES = 64 * 2**20
_REAL = ("the network and the client", "answers that end early")
_REFUSED = {
    "429": "too many requests (injected by the simulated server)",
    "500": "internal error (injected by the simulated server)",
    "503": "not ready (injected by the simulated server)",
}


@dataclass(frozen=True, slots=True)
class About:
    """Who answers: the model that is named, the law and the rules of its engines, and the speed of its clock."""

    served: Served
    law: StepLaw
    rules: Rules
    speed: float = 1.0
    seed: int = 0

    @property
    def header(self) -> str:
        """The value of the header that every answer carries."""
        return f"{self.law.origin}; speed={self.speed:g}"

    def plain(self) -> dict[str, Any]:
        """What the simulation stands on, as a run folder keeps it."""
        known = simulated_of(self.law, self.rules, self.seed)
        law = {**known.law, "speed": self.speed}
        lacking = tuple(each for each in known.not_modelled if each not in _REAL)
        plain: dict[str, Any] = encode(replace(known, law=law, not_modelled=lacking))
        return plain


class App:
    """One simulated server. `application` is what aiohttp runs; `pace` runs beside it."""

    def __init__(self, about: About, replicas: Replicas, faults: Faults) -> None:
        self.about, self._faults = about, faults
        self.metrics = Metrics(about.served.model, about.speed)
        self.pace = Pace(replicas, about.speed, self._write)
        self._numbers, self._begin = itertools.count(1), round(time.time())
        self.application = web.Application(client_max_size=_MOST_BODY_BYTES, middlewares=[_refusing])
        self.application.on_response_prepare.append(self._sign)
        self.application.add_routes(
            [
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._completions),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
                web.get("/metrics", self._page),
                web.get("/version", self._version),
                web.get("/server_info", self._settings),
            ]
        )

    async def _sign(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers[SIMULATED] = self.about.header
        response.headers["Server"] = FINGERPRINT

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._ask("chat", request)

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._ask("completions", request)

    async def _ask(self, kind: Kind, request: web.Request) -> web.StreamResponse:
        number, body = next(self._numbers), await request.read()
        arrival_s = self.pace.now_s()
        try:
            asked = read(kind, json_of(body.decode()), self.about.served)
            check_request(self.about.rules, asked.prompt_tokens, asked.output_tokens, number)
        except ValueError:
            raise Unfit(400, "the body is no JSON") from None
        except BadInput as wrong:
            raise Unfit(400, str(wrong)) from None
        fault = self._faults.of(number, asked.output_tokens)
        if fault is not None and fault.kind in _REFUSED:
            return self._refused(fault)
        over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        answer = Answer.to(asked, number, self.about.served.model, round(time.time()))
        stream = Stream(number, answer, arrival_s, over, fault, last_ns=time.monotonic_ns())
        self.metrics.count("prompt_tokens", asked.prompt_tokens)
        return await (self._streamed(stream, request) if asked.streams else self._whole(stream, request))

    async def _streamed(self, stream: Stream, request: web.Request) -> web.StreamResponse:
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        response = web.StreamResponse(headers=headers)
        writer = await response.prepare(request)
        assert isinstance(writer, StreamWriter)
        stream.writer = writer
        if await self._ended(stream) == "cut":
            self._cut(request)
        else:
            await response.write_eof()
        return response

    async def _whole(self, stream: Stream, request: web.Request) -> web.StreamResponse:
        if await self._ended(stream) == "cut":
            self._cut(request)
        return web.json_response(stream.answer.whole())

    async def _ended(self, stream: Stream) -> str:
        """Why it ended. A client that leaves takes its request along."""
        self.pace.add(stream)
        try:
            why = await stream.over
        except asyncio.CancelledError:
            why = "abort"
            raise
        finally:
            self.pace.leave(stream)
            self.metrics.ended(why)
        return why

    async def _write(self, stream: Stream, first: int, count: int, lag_s: float) -> None:
        now_ns = time.monotonic_ns()
        if stream.fault is not None and stream.fault.kind == "cut" and first + count > stream.fault.token:
            stream.end("cut")
            return
        between_s = (now_ns - stream.last_ns) / 1e9
        self.metrics.time("time_to_first_token_seconds" if first == 0 else "inter_token_latency_seconds", between_s)
        self.metrics.lag(lag_s)
        self.metrics.count("generation_tokens", count)
        stream.last_ns = now_ns
        if stream.writer is not None:
            try:
                # No waiting for a client that does not read: the others' tokens are due now.
                await stream.writer.write(stream.answer.events(first, count), drain=False)
            except ConnectionError:
                stream.end("abort")
                return
        if first + count == stream.answer.asked.output_tokens:
            self._count(stream)
            stream.end(stream.answer.asked.finish)

    def _count(self, stream: Stream) -> None:
        """The phases of a request whose answer is whole, as its engine had them."""
        done, speed = stream.request, self.about.speed
        assert done is not None
        for name, begin_s, end_s in (
            ("e2e_request_latency_seconds", stream.arrival_s, self.pace.now_s()),
            ("request_queue_time_seconds", done.arrival_s, done.start_s),
            ("request_prefill_time_seconds", done.start_s, done.first_token_s),
            ("request_decode_time_seconds", done.first_token_s, done.end_s),
        ):
            self.metrics.time(name, (end_s - begin_s) / speed)
        if self.about.rules.enable_prefix_caching:
            self.metrics.count("prefix_cache_queries", done.prompt)
            self.metrics.count("prefix_cache_hits", done.cached)

    def _cut(self, request: web.Request) -> None:
        if request.transport is not None:
            request.transport.abort()

    def _refused(self, fault: Fault) -> web.Response:
        wrong = Unfit(int(fault.kind), _REFUSED[fault.kind])
        headers = {"Retry-After": f"{fault.amount:g}"} if fault.kind == "429" else {}
        return web.json_response(refusal(wrong), status=wrong.status, headers=headers)

    async def _models(self, request: web.Request) -> web.Response:
        served = self.about.served
        entry = {
            "id": served.model,
            "object": "model",
            "created": self._begin,
            "owned_by": FINGERPRINT,
            "max_model_len": served.max_model_len,
            "simulated": self.about.plain(),
        }
        return web.json_response({"object": "list", "data": [entry]})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _page(self, request: web.Request) -> web.Response:
        page = self.metrics.page(self.pace.replicas.states())
        return web.Response(body=page, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": __version__})

    async def _settings(self, request: web.Request) -> web.Response:
        return web.json_response({"vllm_config": asdict(self.about.rules), "simulated": self.about.plain()})


@web.middleware
async def _refusing(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        answer: web.StreamResponse = await handler(request)
    except Unfit as wrong:
        return web.json_response(refusal(wrong), status=wrong.status)
    return answer
