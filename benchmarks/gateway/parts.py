"""Parts of one request of ours by themselves: a decision, admission and settlement, a record of traffic."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

from benchmarks.finding import Finding
from benchmarks.gateway import upstream
from benchmarks.gateway_routing import asked_of, decision_us
from twinlens.gateway.backend import Backend, Price
from twinlens.gateway.limits.gate import Gate
from twinlens.gateway.limits.keys import new_key
from twinlens.gateway.limits.ledger import Ledger
from twinlens.gateway.outcome import Attempt, Outcome
from twinlens.gateway.relay.delivery import Out
from twinlens.gateway.relay.upstream import Upstream, posting_of
from twinlens.gateway.relay.wire import Pool, Wire
from twinlens.gateway.routing.route import Candidate, Route
from twinlens.gateway.settings import BackendSettings, GatewaySettings, KeySettings
from twinlens.gateway.watch.day import Day, Front
from twinlens.gateway.watch.prometheus import Times
from twinlens.record.estimate import Estimate
from twinlens.stats.estimator.quantile import interval_ranks
from twinlens.units import SECONDS

_BATCHES = 21
_MS = 1_000_000


def parts() -> list[Finding]:
    """Processor time of each, by batches."""
    decisions = [decision_us(tries=300)[0] / 1e6 for _ in range(_BATCHES)]
    return [
        Finding("ours: a token from its read to its write, warm", _middle(asyncio.run(_token_s()))),
        Finding("ours: a decision among 16 backends", _middle(decisions), 50e-6),
        Finding("ours: admission and settlement by three limits", _middle(_limits_s()), 10e-6),
        Finding("ours: a record of 48 tokens, in its thread", _middle(_record_s()), 10e-6, note="rows, routes, times"),
    ]  # fmt: skip


class _Nowhere(asyncio.Transport):
    """A connection that costs nothing."""

    def write(self, data: object) -> None:
        """It goes nowhere."""

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0


async def _token_s(each: int = 1000) -> list[float]:
    """All that is ours of a streamed token, without the system's calls and the event loop."""
    asked, backend = asked_of(200, 48), Backend("b", "http://127.0.0.1:1/v1")
    pool = Pool(backend.url)
    wire, times, loop = Wire(pool), list[int](), asyncio.get_running_loop()
    wire.connection_made(_Nowhere())

    async def post(path: str, body: bytes) -> Wire:
        wire.ask(body)
        loop.call_soon(wire.data_received, upstream.HEAD + upstream.ROLE + upstream.TOKEN)
        return wire

    pool.post = post  # type: ignore[method-assign]
    route = Route(backend, (Candidate("b", 0),), "in turn", 60.0)
    opened = Upstream(pool, backend, asked, Attempt("b", route, 0))
    await opened.open(posting_of(asked, backend), 5.0)
    client = SimpleNamespace(transport=_Nowhere())
    out = Out(client, SimpleNamespace(chunked=True, send_headers=lambda: None))  # type: ignore[arg-type]

    def deliver(block: bytes, tokens: int) -> bool:
        times.append(time.monotonic_ns())
        return out.send(block)

    flowing = asyncio.create_task(opened.flow(deliver))
    await asyncio.sleep(0)
    found = _batches(lambda: wire.data_received(upstream.TOKEN), each)
    assert len(times) == _BATCHES * each
    flowing.cancel()
    return found


def _limits_s(each: int = 400) -> list[float]:
    key, lines = new_key("team")
    hashed = lines.partition('hash = "')[2].partition('"')[0]
    limits = KeySettings(name="team", hash=hashed, requests_per_min=10**8, tokens_per_min=10**11,
                         money_per_day="100000000 USD")  # fmt: skip
    settings = GatewaySettings(backend=(BackendSettings(name="b", url="http://x"),), key=(limits,))
    asked, header, dear = asked_of(200, 48), f"Bearer {key}", Price(Decimal("0.000002"), Decimal("0.000001"))
    with tempfile.TemporaryDirectory() as name:
        gate = Gate(settings, Ledger(Path(name) / "limits.sqlite"))

        def once() -> None:
            gate.settle(gate.admit(header, asked, dear), 90, 40 * dear.output)

        try:
            return _batches(once, each)
        finally:
            gate.close()


def _record_s(rows: int = 100) -> list[float]:
    route = Route(Backend("b", "http://x"), (Candidate("b", 2),), "in turn", 60.0)
    asked, took = asked_of(200, 48), []
    with tempfile.TemporaryDirectory() as name:
        day, times, front = None, Times(), Front("http://127.0.0.1:1/v1", ({"name": "b"},))
        for batch in range(_BATCHES + 1):
            outcomes = [_outcome(n, asked, route) for n in range(rows)]
            begin = time.thread_time_ns()
            if day is None:
                day = Day(Path(name), "2026-11-28", front, outcomes, 0)
            else:
                day.add(outcomes)
            for each in outcomes:
                times.add(each)
            if batch:
                took.append((time.thread_time_ns() - begin) / 1e9 / rows)
    return took


def _outcome(number: int, asked: object, route: Route) -> Outcome:
    at_ns = number * _MS
    tries = [Attempt("b", route, at_ns, first_ns=at_ns + 20 * _MS, end_ns=at_ns + 2000 * _MS, output_tokens=48)]
    return Outcome(
        f"r-{number}", "team", at_ns, asked, "null", tries, [at_ns + (20 + 40 * n) * _MS for n in range(48)], [1] * 48,
        at_ns + 2000 * _MS, 8, 48,
    )  # type: ignore[arg-type]  # fmt: skip


def _batches(once: Callable[[], None], each: int) -> list[float]:
    found = []
    for _ in range(_BATCHES):
        begin = time.thread_time_ns()
        for _ in range(each):
            once()
        found.append((time.thread_time_ns() - begin) / 1e9 / each)
    return found


def _middle(values: list[float]) -> Estimate:
    ordered, size = sorted(values), len(values)
    low, high = (ordered[rank - 1] for rank in interval_ranks(size, 0.5, 0.95))
    return Estimate(statistics.median(ordered), SECONDS, f"median of {size} batches, interval of order statistics",
                    "measured", low, high, 0.95, size)  # fmt: skip
