"""The answer on its way to the client: as it comes, and what follows where a backend is lost in mid-answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from twinlens.gateway.asked import Asked
from twinlens.gateway.outcome import Outcome
from twinlens.gateway.refusal import Refusal
from twinlens.gateway.relay import resume
from twinlens.gateway.relay.failover import Failover, Opened, tried_of
from twinlens.gateway.relay.passing import DONE
from twinlens.gateway.relay.resume import SoFar, so_far, translated
from twinlens.gateway.relay.upstream import Failed
from twinlens.gateway.routing.served import AUTO
from twinlens.record.foreign_text import in_one_line

_MOST_UNSENT_BYTES = 2**16
"""What the client's connection holds at most before its backend is no longer read: as many as make it wait."""
_STREAM = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class Delivery:
    """One answer of one request. `first`: what its events say of themselves, once a second backend goes on with it."""

    def __init__(self, failover: Failover, asked: Asked, outcome: Outcome) -> None:
        self._failover, self._asked, self._outcome = failover, asked, outcome
        self._done: SoFar | None = None
        self._first: Mapping[str, Any] | None = None
        self._opened: Opened | None = None

    async def send(
        self, request: web.Request, opened: Opened, headers: Mapping[str, str], over_s: float
    ) -> web.StreamResponse:
        """To the client, to its end, at the latest at `over_s` of the loop's clock. The outcome says what happened."""
        self._opened = opened
        try:
            if opened.upstream.whole:
                return self._whole(opened, headers)
            response = web.StreamResponse(headers={**_STREAM, **headers})
            await self._stream(response, Out(request, await response.prepare(request)), over_s)
            return response
        except (ConnectionError, asyncio.CancelledError):
            if not self._outcome.is_sent:
                self._outcome.ending, self._outcome.error = "left", "the client left before the end"
            raise
        finally:
            self._over()

    def _whole(self, opened: Opened, headers: Mapping[str, str]) -> web.Response:
        self._counted()
        now_ns = time.monotonic_ns()
        self._outcome.chunk_ns, self._outcome.chunk_tokens = [now_ns], [self._outcome.output_tokens or 0]
        if self._outcome.output_tokens is None:
            self._outcome.error = self._outcome.error or "the backend counted no tokens of this answer"
        return web.Response(body=opened.upstream.whole, headers=headers, content_type="application/json")

    async def _stream(self, response: web.StreamResponse, out: Out, over_s: float) -> None:
        opened = self._current
        if opened.upstream.held:
            await self._pass(response, opened.upstream.held, opened.upstream.held_tokens, time.monotonic_ns())
        while True:
            try:
                async with asyncio.timeout_at(over_s):
                    await self._until_end(response, out)
                break
            except TimeoutError:
                late = Failed("late", "the answer takes longer than a request may")
                self._failover.over(self._current, late.kind, late.said)
                await self._say_cut(response, late, "it was ended")
                return
            except Failed as failed:
                why = await self._goes_on(failed, response)
                if why:
                    await self._say_cut(response, failed, why)
                    return
        self._counted()
        if self._done is not None and self._asked.wants_usage:
            prompt, made = self._outcome.input_tokens, self._outcome.output_tokens
            if prompt is not None and made is not None:
                await response.write(resume.counts(self._first, prompt, made))
        await response.write(DONE)
        await response.write_eof()
        self._outcome.is_sent = True
        await self._current.upstream.finish()

    async def _until_end(self, response: web.StreamResponse, out: Out) -> None:
        """The hot path: what is read goes on in the callback of its read, with one clock and two appended numbers."""
        upstream, outcome, is_first = self._current.upstream, self._outcome, self._done is None
        times, tokens_of, send = outcome.chunk_ns, outcome.chunk_tokens, out.send
        watching = _Silence(self._current, self._failover.settings.silence_s)

        def deliver(block: bytes, tokens: int) -> bool:
            watching.since_ns = now_ns = time.monotonic_ns()
            if tokens:
                times.append(now_ns)
                tokens_of.append(tokens)
            return send(block if is_first else translated(block, self._first, self._asked))

        try:
            while not await upstream.flow(deliver):
                watching.since_ns = None
                await out.drain()
                watching.since_ns = time.monotonic_ns()
        except Failed as failed:
            raise watching.failure or failed from None
        finally:
            watching.end()

    async def _pass(self, response: web.StreamResponse, block: bytes, tokens: int, now_ns: int) -> None:
        if tokens:
            self._outcome.chunk_ns.append(now_ns)
            self._outcome.chunk_tokens.append(tokens)
        if self._done is not None:
            block = translated(block, self._first, self._asked)
        if block:
            await response.write(block)

    async def _goes_on(self, failed: Failed, response: web.StreamResponse) -> str:
        """Another backend goes on, or why none does."""
        failover, lost = self._failover, self._current
        failover.over(lost, failed.kind, failed.said)
        if failover.settings.stream_failure != "continue":
            return "the gateway ends answers whose backend is lost"
        if why := resume.refusal(self._asked, lost.upstream.answer):
            return f"no other backend can go on: {why}"
        if not lost.route.backend.weights:
            return "no other backend is known to have the same weights"
        self._first = self._first or lost.upstream.passing.first
        self._done = done = so_far(lost.upstream.passing, self._done)
        if self._asked.most_tokens is not None and done.made >= self._asked.most_tokens:
            lost.upstream.answer.finish = "length"
            await response.write(resume.closing(self._first, self._asked))
            return ""
        try:
            route = failover.router.route(
                self._asked, tried_of(self._outcome), time.monotonic_ns(), weights=lost.route.backend.weights
            )
            posting = resume.posting_of(self._asked, route.backend, done)
            self._opened = opened = await failover.open(route, self._asked, self._outcome, posting)
        except Refusal as refusal:
            return f"no other backend can go on: {refusal.sentence}"
        except Failed as again:
            return f"{self._outcome.attempts[-1].backend} did not go on: {again.said}"
        await self._pass(response, opened.upstream.held, opened.upstream.held_tokens, time.monotonic_ns())
        return ""

    async def _say_cut(self, response: web.StreamResponse, failed: Failed, why: str) -> None:
        """The client is told inside the stream, which then ends without `[DONE]`."""
        self._outcome.ending = "cut_off"
        lost = self._current.route.backend.name
        self._outcome.error = f"backend {lost} was lost in mid-answer ({failed.said}); {why}"
        self._counted()
        await response.write(Refusal(502, self._outcome.error).event())
        await response.write_eof()

    def _counted(self) -> None:
        """The counts of the server, where they can be: not below 0, not more than was asked for."""
        usage = self._current.upstream.answer.usage or {}
        prompt, made = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
        most = self._asked.most_tokens
        if self._asked.kind == "embeddings" and prompt is not None:
            made = 0
        if self._done is not None:
            prompt = prompt - self._done.made if prompt is not None and prompt > self._done.made else None
            made = made + self._done.made if made is not None else None
        told, window = self._other_model(), self._current.route.backend.longest_tokens
        if made is not None and most is not None and made > most * self._asked.choices:
            told, made = f"the backend counts {made} tokens, more than the {most} asked for; not believed", None
        if prompt is not None and window is not None and prompt > window and self._asked.kind != "embeddings":
            told, prompt = f"the backend counts {prompt} prompt tokens, and its window is {window}; not believed", None
        self._outcome.error = self._outcome.error or told
        self._outcome.input_tokens, self._outcome.output_tokens = prompt, made
        details = usage.get("prompt_tokens_details")
        self._outcome.cached_tokens = _count(details.get("cached_tokens")) if isinstance(details, dict) else None

    def _other_model(self) -> str:
        """Whether another model answered than the one that was asked, in words; a longer name of it is no other."""
        asked = self._current.route.backend.model or self._asked.model
        said = self._current.upstream.answer.model
        if said == asked or not said:
            return ""
        short, long = sorted((PurePosixPath(each).name.lower() for each in (asked, said)), key=len)
        if not short or asked == AUTO or long.startswith(short):
            return ""
        return f"the backend says that {in_one_line(said, 80)} answered, and {in_one_line(asked, 80)} was asked"

    def _over(self) -> None:
        opened = self._current
        ended = self._outcome.ending
        made, before = self._outcome.output_tokens, self._done.made if self._done is not None else 0
        own = None if made is None else max(0, made - before)
        self._failover.over(opened, input_tokens=self._outcome.input_tokens, output_tokens=own)
        if ended == "left":
            opened.upstream.close()

    @property
    def _current(self) -> Opened:
        assert self._opened is not None
        return self._opened


class Out:
    """The connection to the client of a stream that has begun, written to without a task. Headers go out with the first
    bytes that the response itself writes, or before the first that are sent here."""

    def __init__(self, request: web.Request, writer: AbstractStreamWriter | None) -> None:
        if writer is None or request.transport is None:
            raise ConnectionResetError("the client left")
        self._writer, self._transport = writer, request.transport
        self._is_chunked = bool(getattr(writer, "chunked", False))
        self._has_begun = False

    def send(self, block: bytes) -> bool:
        """Whether the client keeps up."""
        transport = self._transport
        if transport.is_closing() or not block:
            return True  # the task of a client that has left is cancelled
        if not self._has_begun:
            self._writer.send_headers()
            self._has_begun = True
        transport.write(b"%x\r\n%b\r\n" % (len(block), block) if self._is_chunked else block)
        return transport.get_write_buffer_size() <= _MOST_UNSENT_BYTES

    async def drain(self) -> None:
        """Until the client has read. Raises ConnectionError where it left."""
        await self._writer.drain()


class _Silence:
    """Ends an answer whose backend says nothing for too long: one timer an answer, and not one a token. A client that
    does not read is not its backend's silence. `since_ns`: since when the backend is waited for."""

    def __init__(self, opened: Opened, longest_s: float) -> None:
        self._opened, self._longest_s = opened, longest_s
        self.since_ns: int | None = time.monotonic_ns()
        self.failure: Failed | None = None
        self._timer = asyncio.get_running_loop().call_later(longest_s, self._look)

    def _look(self) -> None:
        silent_s = 0.0 if self.since_ns is None else (time.monotonic_ns() - self.since_ns) / 1e9
        if silent_s >= self._longest_s:
            self.failure = Failed("late", f"silent for {self._longest_s:g} s in mid-answer")
            self._opened.upstream.close()
            return
        self._timer = asyncio.get_running_loop().call_later(self._longest_s - silent_s, self._look)

    def end(self) -> None:
        self._timer.cancel()


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
