"""Until a first content is here: one backend after another, each once, within the deadline and budget of retries."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

from twinlens.gateway.asked import Asked
from twinlens.gateway.limits.queue import Queue
from twinlens.gateway.outcome import Attempt, Failure, Outcome
from twinlens.gateway.refusal import Refusal
from twinlens.gateway.relay.upstream import Failed, Posting, Upstream, posting_of
from twinlens.gateway.relay.wire import Pool
from twinlens.gateway.routing.route import Route, Ticket
from twinlens.gateway.routing.router import Router
from twinlens.gateway.settings import GatewaySettings

Pools = Mapping[str, Pool]
_FIRST = 10.0


class Share:
    """A budget that each request fills by `share` and each use takes 1 from. At the start `_FIRST` uses are there, and
    never more than that: a storm of failures is not answered by a storm of requests."""

    def __init__(self, share: float, first: float = _FIRST) -> None:
        self._share, self._most = share, first
        self.left = first if share > 0 else 0.0
        self.used = self.refused = 0

    def earn(self) -> None:
        """A request came."""
        self.left = min(self.left + self._share, self._most) if self._share > 0 else 0.0

    def take(self) -> bool:
        """Whether one more may be sent, which is counted."""
        if self.left < 1:
            self.refused += 1
            return False
        self.left -= 1
        self.used += 1
        return True


@dataclass(slots=True)
class Opened:
    """A backend whose first content is here."""

    upstream: Upstream
    ticket: Ticket
    route: Route


class Failover:
    """What is shared by all requests of one process: the router, the connections, the budgets of retries and hedges."""

    def __init__(self, router: Router, pools: Pools, settings: GatewaySettings) -> None:
        self.router, self.settings = router, settings
        self._pools = pools
        self.queue = Queue(settings.queue, settings.queue_s)
        self.retries = Share(settings.retry_share)
        self.hedges = Share(settings.hedging.share if settings.hedging else 0.0, first=1.0)

    async def opened(self, asked: Asked, outcome: Outcome) -> Opened:
        """The first backend that answers. Raises Failed where the request itself is wrong (the client is told what the
        backend said), Refusal where no backend could be had."""
        self.retries.earn()
        self.hedges.earn()
        failures: list[tuple[str, Failed]] = []
        while True:
            try:
                route = self._route(asked, outcome) if failures else await self._in_turn(asked, outcome)
            except Refusal as refusal:
                raise (_nobody(failures) if failures else refusal) from None
            if failures and not self.retries.take():
                raise _nobody(failures, "; the budget of retries is spent")
            try:
                return await self._first(route, asked, outcome)
            except Failed as failed:
                if failed.is_clients:
                    raise
                failures.append((route.backend.name, failed))

    def _route(self, asked: Asked, outcome: Outcome) -> Route:
        return self.router.route(asked, tried_of(outcome), time.monotonic_ns())

    async def _in_turn(self, asked: Asked, outcome: Outcome) -> Route:
        """After those that wait already, and once a backend is free. The outcome says for how long it waited."""
        looks, waits = 0, 0 < len(self.queue) < self.queue.places

        def take() -> Route:
            nonlocal looks
            looks += 1
            return self._route(asked, outcome)

        try:
            return await self.queue.turn(take)
        finally:
            if waits or looks > 1:
                outcome.queued_ns = time.monotonic_ns() - outcome.intended_ns

    async def _first(self, route: Route, asked: Asked, outcome: Outcome) -> Opened:
        """By this backend, or by a second one that is asked where this takes long and hedging is on."""
        if route.hedge_s is None or self.settings.hedging is None or not asked.streams:
            return await self.open(route, asked, outcome)
        leader = asyncio.create_task(self.open(route, asked, outcome))
        follower: asyncio.Task[Opened] | None = None
        try:
            await asyncio.wait({leader}, timeout=route.hedge_s)
            if leader.done():
                return leader.result()
            with contextlib.suppress(Refusal):
                second = self.router.route(asked, tried_of(outcome), time.monotonic_ns())
                if self.hedges.take():
                    follower = asyncio.create_task(self.open(second, asked, outcome))
            return await _faster(leader, follower) if follower else await leader
        finally:
            for task in (leader, follower):
                if task is not None and not task.done():
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError, Failed):
                        await task

    async def open(self, route: Route, asked: Asked, outcome: Outcome, posting: Posting | None = None) -> Opened:
        """Ask one backend, until its first content. Raises Failed."""
        attempt = Attempt(route.backend.name, route, time.monotonic_ns())
        outcome.attempts.append(attempt)
        takes_ids = self.settings.stream_failure == "continue" and asked.streams and bool(route.backend.gives_token_ids)
        upstream = Upstream(self._pools[route.backend.name], route.backend, asked, attempt, takes_ids=takes_ids)
        ticket = self.router.begin(route, asked, attempt.begin_ns)
        opened = Opened(upstream, ticket, route)
        within_s = route.first_token_s if asked.streams else self.settings.deadline_s
        try:
            await upstream.open(posting or posting_of(asked, route.backend, token_ids=takes_ids), within_s)
        except Failed as failed:
            self.over(opened, failed.kind, failed.said, failed=failed)
            raise
        except asyncio.CancelledError:
            self.over(opened, "hedged", "the client left, or another backend was faster")
            raise
        if asked.streams:
            attempt.first_ns = time.monotonic_ns()
            self.router.first(ticket, attempt.first_ns)
        return opened

    def over(self, opened: Opened, failure: Failure = "", said: str = "", input_tokens: int | None = None, *,
             output_tokens: int | None = None, failed: Failed | None = None) -> None:  # fmt: skip
        """An attempt is over: counted once, its connection given back or closed. A request that is wrong is no failure
        of its backend. Tokens that nobody counted are the content events of a stream, and not known of a whole answer.
        """
        attempt = opened.upstream.attempt
        if opened.ticket.is_over:
            return
        attempt.end_ns, attempt.failure, attempt.said = time.monotonic_ns(), failure, said
        events = 0 if opened.upstream.whole else len(opened.upstream.answer.reads)
        attempt.output_tokens = events if output_tokens is None else output_tokens
        is_wrong, is_busy = failed is not None and failed.is_clients, failed is not None and failed.status == 429
        self.router.end(
            opened.ticket, attempt.end_ns, "hedged" if is_wrong else failure, input_tokens,
            attempt.output_tokens or None, retry_after_s=failed.retry_after_s if failed else None, is_busy=is_busy,
        )  # fmt: skip
        self.queue.freed()
        if failure:
            opened.upstream.close()


async def _faster(leader: asyncio.Task[Opened], follower: asyncio.Task[Opened]) -> Opened:
    """Whichever has content first; where one fails, the other. Raises Failed where both do."""
    done, _ = await asyncio.wait({leader, follower}, return_when=asyncio.FIRST_COMPLETED)
    good = [each for each in (leader, follower) if each in done and each.exception() is None]
    if good:
        return good[0].result()
    rest = [each for each in (leader, follower) if each not in done]
    return await rest[0] if rest else leader.result()


def tried_of(outcome: Outcome) -> frozenset[str]:
    return frozenset(each.backend for each in outcome.attempts)


def _nobody(failures: list[tuple[str, Failed]], more: str = "") -> Refusal:
    """All that were asked have failed: the sentence names each; the status is the gentlest of theirs."""
    told = "; ".join(f"{name}: {failed.said}" for name, failed in failures[-4:])
    waits = [failed.retry_after_s for _, failed in failures if failed.status == 429]
    if len(waits) == len(failures):
        return Refusal(429, f"every backend has too much to do: {told}{more}",
                       retry_after_s=min((each for each in waits if each is not None), default=1.0))  # fmt: skip
    late = all(failed.kind == "first token late" for _, failed in failures)
    return Refusal(504 if late else 502, f"no backend answered: {told}{more}")
