"""A question from the page: asked of the server, once or several times at once, and told as it goes.

What has come is kept here in memory, the newest of it, so that a talk can be saved with the times that were taken here
and not with what a browser says.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from aiohttp import ClientSession, web

from twinlens.record.finding import Finding
from twinlens.system.document import json_of
from twinlens.web.place import Place, place_of
from twinlens.web.playground.beside import Joules, measured_of, watch_server
from twinlens.web.playground.figures import cost, figures, shown
from twinlens.web.playground.upstream import Exchange, ask, first_served, session
from twinlens.web.playground.wanted import Wanted, wanted_of
from twinlens.web.work.job import jobs, serves

_BEAT_S = 0.5
_MOST_KEPT, _MOST_CHUNKS = 200, 500_000
_KEPT: dict[str, Exchange] = {}
Event = dict[str, Any]


async def asked(request: web.Request) -> web.StreamResponse:
    """Answer with events: text as it comes with the times of its marks, gauges, and figures at the end.

    When the page goes away, or stops it, the question to the server ends too.
    """
    wanted = await asyncio.to_thread(wanted_of, await json_in(request))
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):  # the page has gone
        async with (
            contextlib.aclosing(told(wanted, place_of(request))) as telling,
            contextlib.aclosing(_with_beats(telling)) as events,
        ):
            async for event in events:
                await response.write(b": \n\n" if event is None else f"data: {json.dumps(event)}\n\n".encode())
                if request.transport is None or request.transport.is_closing():
                    break
    return response


async def json_in(request: web.Request) -> Any:
    """The JSON of a body, within the bounds of a document. Raises HTTPBadRequest."""
    try:
        return json_of(await request.text())
    except ValueError as wrong:
        raise web.HTTPBadRequest(text=f"what was sent is not JSON that can be read ({str(wrong)[:60]})") from None


async def _with_beats(events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event | None, None]:
    """The events, and None whenever there is none for a while: so that a page that is gone is noticed."""
    coming: asyncio.Task[Event] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({coming}, timeout=_BEAT_S)
            if not done:
                yield None
                continue
            try:
                event = coming.result()
            except StopAsyncIteration:
                return
            finally:
                coming = None
            yield event
    finally:
        if coming is not None:
            coming.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await coming


async def told(wanted: Wanted, place: Place) -> AsyncGenerator[Event, None]:
    """All events of one question. The first of several at once is the one that is shown."""
    queue: asyncio.Queue[Event] = asyncio.Queue()
    started = await asyncio.to_thread(_started_here, place, wanted.url)
    async with session(wanted.url, wanted.key) as asking, _Tasks() as tasks:
        if not wanted.model:
            wanted = replace(wanted, model=started["model"] or await first_served(asking, wanted.url))
        yield {"kind": "begin", "model": short_name(wanted.model), "url": wanted.url, "note": note_of(started)}
        joules = await asyncio.to_thread(Joules, wanted.url)
        exchanges = [Exchange(replace(wanted, key="")) for _ in range(wanted.at_once)]
        tasks.add(watch_server(asking, wanted.url, lambda gauges: queue.put_nowait({"kind": "server", **gauges})))
        answering = [tasks.add(_answer(asking, each, queue, is_shown=each is exchanges[0])) for each in exchanges]
        tasks.add(_over(answering, queue))
        while (event := await queue.get())["kind"] != "over":
            yield event
        yield {"kind": "end", **await _end(exchanges, joules, place, started["model"])}


def _started_here(place: Place, url: str) -> dict[str, str]:
    """What is known of a server that was started from a page; all "" of another one."""
    found = (serves(job) for job in jobs(place.out))
    return next((each for each in found if each["url"] == url), {"model": "", "is_random": ""})


def short_name(model: str) -> str:
    """A model by its name, where a server calls it by the folder that it was read from."""
    return model.rstrip("/").rpartition("/")[2] if model.startswith(("/", "~")) else model


def note_of(started: dict[str, str]) -> str:
    """What whoever reads the answers of a server should know before."""
    from twinlens.reporting.wording.finding import sentence_of

    return sentence_of(Finding("random-weights-served", "notes")) if started["is_random"] else ""


async def _answer(asking: ClientSession, exchange: Exchange, queue: asyncio.Queue[Event], *, is_shown: bool) -> None:
    async for text, times in ask(asking, exchange):
        if is_shown:
            marks = [round((each - exchange.sent_ns) / 1e6, 3) for each in times]
            queue.put_nowait({"kind": "text", "text": shown(text), "marks_ms": marks})


async def _over(answering: list[asyncio.Task[None]], queue: asyncio.Queue[Event]) -> None:
    await asyncio.gather(*answering, return_exceptions=True)
    queue.put_nowait({"kind": "over"})


async def _end(exchanges: list[Exchange], joules: Joules, place: Place, model: str) -> Event:
    """The figures, what was measured of this server before, and where the talk is kept."""
    first = exchanges[0]
    total = sum(each.tokens for each in exchanges)
    rows = [*figures(exchanges), await asyncio.to_thread(joules.per_token, total), cost(first)]
    folders, url = (*place.folders, place.out), first.wanted.url
    measured = await asyncio.to_thread(measured_of, folders, url, model)
    for row in rows:
        row["measured"] = measured.get(row["id"], "")
    kept = [] if any(each.is_stopped for each in exchanges) else [keep(each) for each in exchanges if each.chunk_ns]
    return {"rows": rows, "error": first.error or "", "finish": first.answer.finish or "", "kept": kept,
            "run": measured.get("run", ""), "merged": first.merged, "endpoint": first.endpoint,
            "thought": first.answer.reasoning}  # fmt: skip


def keep(exchange: Exchange) -> str:
    """A name under which it can be saved for a while: its times and counts, and nothing that was said."""
    name = secrets.token_hex(8)
    exchange.wanted = replace(exchange.wanted, messages=())
    _KEPT[name] = exchange
    while len(_KEPT) > _MOST_KEPT or sum(len(each.chunk_ns) for each in _KEPT.values()) > _MOST_CHUNKS:
        del _KEPT[next(iter(_KEPT))]
    return name


def kept(names: list[str]) -> list[Exchange]:
    """Those that are still here, in their order."""
    return [_KEPT[name] for name in dict.fromkeys(names) if name in _KEPT]


async def whole_answer(wanted: Wanted, place: Place) -> tuple[str, Event]:
    """The same for a page without script: the text, and the last event."""
    text, last = "", {}
    async for event in told(wanted, place):
        if event["kind"] == "text":
            text += event["text"]
        last = event
    return text, last


class _Tasks:
    """Tasks that end with the block, however it ends."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, work: Any) -> asyncio.Task[None]:
        self._tasks.append(asyncio.ensure_future(work))
        return self._tasks[-1]

    async def __aenter__(self) -> _Tasks:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
