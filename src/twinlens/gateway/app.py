"""The pages of a gateway: OpenAI's endpoints, the models behind it, its state, and why a request went where it went."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import web

from twinlens.gateway.asked import Kind, read
from twinlens.gateway.backend import Backend, Price, dearest_of
from twinlens.gateway.limits.gate import FLUSH_S, Admission, Gate
from twinlens.gateway.limits.used import used_money, used_tokens
from twinlens.gateway.outcome import Outcome
from twinlens.gateway.refusal import Refusal
from twinlens.gateway.relay.delivery import Delivery
from twinlens.gateway.relay.failover import Failover
from twinlens.gateway.relay.resume import gives_token_ids
from twinlens.gateway.relay.upstream import Failed
from twinlens.gateway.relay.wire import Pool
from twinlens.gateway.routing.asking import as_before
from twinlens.gateway.routing.audit import Audit
from twinlens.gateway.routing.router import Router
from twinlens.gateway.settings import GatewaySettings, is_loopback
from twinlens.gateway.standing import Taken, standing_of
from twinlens.gateway.watch.prometheus import Now, page
from twinlens.gateway.watch.records import Records
from twinlens.gateway.watch.tally import Tally
from twinlens.gateway.watch.watching import Watching
from twinlens.record.foreign_text import in_one_line
from twinlens.record.store import now_utc, write_json

ROUTE_HEADER, BACKEND_HEADER = "X-Twinlens-Route", "X-Twinlens-Backend"
_BODY_S = 30.0
_SHOWN_ROUTES = 20


class App:
    """One gateway in one process. `application` is what aiohttp runs. Settings can be put in place of others while it
    runs: requests on their way keep those that they began with."""

    def __init__(self, settings: GatewaySettings, backends: Sequence[Backend], gate: Gate, records: Records,
                 kept_in: Path | None = None) -> None:  # fmt: skip
        self.settings, self.gate, self.records = settings, gate, records
        self.router = Router(backends, settings)
        self._kept_in = kept_in
        self.audit = Audit()
        self.tally, self._started_utc = Tally(), now_utc()
        self._pools: dict[str, tuple[Pool, tuple[str, str, str]]] = {}
        self._left: list[Pool] = []
        self._failover: Failover | None = None
        self._dearest: Price | None = None
        self._numbers, self._mark = itertools.count(1), secrets.token_hex(4)
        self.application = web.Application(client_max_size=settings.most_body_bytes, middlewares=[_refusing])
        self.application.cleanup_ctx.append(self._connected)
        post, get = self.application.router.add_post, self.application.router.add_get
        post("/v1/chat/completions", self._chat)
        post("/v1/completions", self._completions)
        post("/v1/embeddings", self._embeddings)
        get("/v1/models", self._models)
        get("/health", self._health)
        get("/gateway", self._gateway)
        get("/metrics", self._metrics)
        get("/route/{id}", self._route)

    async def _connected(self, app: web.Application) -> AsyncIterator[None]:
        await self._connect()
        flushing = asyncio.create_task(self._flush())
        yield
        flushing.cancel()
        for each in [*self._left, *(each for each, _ in self._pools.values())]:
            each.close()
        self.gate.close()
        self.records.close()

    async def _flush(self) -> None:
        """A gateway that is killed loses no more of its budgets than one second of them."""
        while True:
            await asyncio.sleep(FLUSH_S)
            self.gate.flush()
            if self._kept_in is not None:
                with contextlib.suppress(OSError, RuntimeError, sqlite3.Error):  # a full disk, or a request in between
                    await asyncio.to_thread(self._write_standing, self._kept_in, self.gate.taken())

    def _write_standing(self, place: Path, taken: Taken) -> None:
        write_json(place, self.standing(taken))

    async def _connect(self) -> None:
        """Connections to the backends that have none; those whose backend is gone are closed once they are idle."""
        known = {each.name: each for each in self.router.backends}
        for name, (old, where) in [*self._pools.items()]:
            if name not in known or _where(known[name]) != where:
                del self._pools[name]
                self._left.append(old)
                asyncio.get_running_loop().call_later(self.settings.deadline_s, self._leave, old)
        for name, backend in known.items():
            if name not in self._pools:
                self._pools[name] = Pool(*_where(backend)), _where(backend)
        await self.find_token_ids()
        self._dearest = dearest_of(self.router.backends)
        self._failover = Failover(self.router, {name: pool for name, (pool, _) in self._pools.items()}, self.settings)

    async def renew(self, settings: GatewaySettings, backends: Sequence[Backend]) -> None:
        """From now on by these settings. Requests on their way end by those that they began with."""
        self.settings = settings
        known = {each.name: each for each in self.router.backends}
        self.router.renew([as_before(each, known.get(each.name)) for each in backends], settings)
        self.gate.renew(settings)
        await self._connect()

    def _leave(self, old: Pool) -> None:
        self._left.remove(old)
        old.close()

    async def find_token_ids(self) -> None:
        """Which backends of shared weights give numbers of tokens, by which an answer goes on exactly; each is asked
        once its weights are known."""
        if self.settings.stream_failure != "continue":
            return
        asked = [each for each in self.router.backends if each.weights and each.gives_token_ids is None]
        found = await asyncio.gather(*(gives_token_ids(self._pools[each.name][0], each) for each in asked))
        gives = {each.name: found_of for each, found_of in zip(asked, found, strict=True)}
        self.router.backends = tuple(
            replace(each, gives_token_ids=gives[each.name]) if gives.get(each.name) is not None else each
            for each in self.router.backends
        )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._serve("chat", request)

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._serve("completions", request)

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        return await self._serve("embeddings", request)

    async def _serve(self, kind: Kind, request: web.Request) -> web.StreamResponse:
        """One request from its head to its row."""
        outcome = Outcome(f"{self._mark}-{next(self._numbers)}", "", time.monotonic_ns())
        admission: Admission | None = None
        try:
            raw = await _body(request)
            outcome.asked = asked = read(kind, raw)
            outcome.model = asked.model
            admission = self.gate.admit(request.headers.get("Authorization"), asked, self._dearest)
            outcome.key = admission.key
            return await self._answer(request, outcome)
        except Refusal as refusal:
            outcome.ending, outcome.status, outcome.error = _ending(outcome), refusal.status, refusal.sentence
            return refusal.answer()
        except web.HTTPRequestEntityTooLarge:
            outcome.ending, outcome.status = "refused", 413
            outcome.error = f"the request has more than {self.settings.most_body_bytes} bytes"
            return Refusal(413, outcome.error).answer()
        except TimeoutError:
            outcome.ending, outcome.status = _ending(outcome), 504
            outcome.error = "the request took longer than it may"
            return Refusal(504 if outcome.attempts else 408, outcome.error).answer()
        except (asyncio.CancelledError, ConnectionError):
            if not outcome.is_sent:
                outcome.ending, outcome.error = "left", outcome.error or "the client left before the end"
            raise
        except Exception as error:  # a fault of ours: the client is told, the row says it, and all others go on
            outcome.ending, outcome.status = "failed", 500
            outcome.error = f"the gateway itself failed: {in_one_line(f'{type(error).__name__}: {error}', 160)}"
            return Refusal(500, outcome.error).answer()
        finally:
            outcome.end_ns = time.monotonic_ns()
            outcome.money = used_money(outcome)
            if admission is not None:
                self.gate.settle(admission, used_tokens(outcome), outcome.money)
            self.tally.add(outcome)
            self.audit.add(outcome)
            self.records.add(outcome)

    async def _answer(self, request: web.Request, outcome: Outcome) -> web.StreamResponse:
        assert self._failover is not None
        assert outcome.asked is not None
        over_s = asyncio.get_running_loop().time() + self.settings.deadline_s
        try:
            async with asyncio.timeout_at(over_s):
                opened = await self._failover.opened(outcome.asked, outcome)
        except Failed as failed:  # the request itself is wrong, as its backend says
            outcome.ending, outcome.status, outcome.error = "failed", failed.status or 400, failed.said
            return web.Response(body=failed.body, status=outcome.status, content_type="application/json")
        headers = {ROUTE_HEADER: outcome.id, BACKEND_HEADER: opened.route.backend.name, **opened.upstream.says}
        return await Delivery(self._failover, outcome.asked, outcome).send(request, opened, headers, over_s)

    async def _models(self, request: web.Request) -> web.Response:
        names = {each.model or each.name: each.name for each in self.router.backends}
        names |= {each.name: "alias" for each in self.settings.alias}
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": by} for name, by in names.items()]
        return web.json_response({"object": "list", "data": listed})

    def standing(self, taken: Taken | None = None) -> dict[str, Any]:
        """What this gateway is doing, as plain data. `taken`: of the limits of keys, as the gate said."""
        known = self.gate.taken() if taken is None else taken
        standing = standing_of(
            self.settings, self.router, known, self.tally, self._started_utc, self.audit.last(_SHOWN_ROUTES)
        )
        return {**standing, "audit": self.audit.to_json()}

    async def _metrics(self, request: web.Request) -> web.Response:
        _refuse_strangers(request)
        waiting = len(self._failover.queue) if self._failover is not None else 0
        if not isinstance(self.records, Watching):
            raise web.HTTPNotFound
        body = page(self.records.times, Now(self.tally, self.router.states, waiting, self.records.lost))
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _route(self, request: web.Request) -> web.Response:
        """Why a request went where it went: the number stands in its answer's header."""
        _refuse_strangers(request)
        found = self.audit.route(request.match_info["id"])
        if found is None:
            raise Refusal(404, "no such route is kept; the last ones are, and all stand in the run of the day")
        return web.json_response(found)

    async def _gateway(self, request: web.Request) -> web.Response:
        _refuse_strangers(request)
        return web.json_response(self.standing())

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})


async def _body(request: web.Request) -> bytes:
    """The whole body; where it is here already, no clock is set. Raises TimeoutError."""
    if request.content.is_eof():
        return await request.read()
    async with asyncio.timeout(_BODY_S):
        return await request.read()


def _refuse_strangers(request: web.Request) -> None:
    """Pages that name backends and clients are this machine's."""
    if not is_loopback(request.remote or ""):
        raise web.HTTPForbidden


def _where(backend: Backend) -> tuple[str, str, str]:
    """What a connection to it depends on."""
    return backend.url, backend.key, backend.ca_file


def _ending(outcome: Outcome) -> Any:
    return "failed" if outcome.attempts else "refused"


@web.middleware
async def _refusing(request: web.Request, handler: Any) -> web.StreamResponse:
    """Errors of the frame in OpenAI's shape too."""
    try:
        answer: web.StreamResponse = await handler(request)
    except Refusal as refusal:
        return refusal.answer()
    except web.HTTPException as error:
        if error.status < 400:
            raise
        sentence = f"{request.method} {request.path[:60]}: {error.reason.lower()}"
        return Refusal(error.status, sentence).answer()
    return answer
