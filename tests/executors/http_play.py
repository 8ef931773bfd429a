"""Playing a schedule against a server, and what holds whatever that server does."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from hostile_server import (
    END,
    HEAD,
    Asked,
    Behaviour,
    answer,
    chunk,
    good,
    hostile,
)

from material import inference, quiet, spec_of
from twinlens.executors.openai.executor import OpenAIServer
from twinlens.network.client import Client
from twinlens.record.request import Request
from twinlens.schedule.closed_loop import ClosedLoop
from twinlens.schedule.open_loop import OpenLoop
from twinlens.schedule.request import Schedule, ScheduledRequest
from twinlens.testing.schedules import Watched

TOKENS = 6


def asks(count: int, every_ns: int = 0, tokens: int = TOKENS) -> list[ScheduledRequest]:
    return [ScheduledRequest(i, i, i * every_ns, 5, tokens, (3, 0, i)) for i in range(count)]


def burst(count: int, tokens: int = TOKENS) -> OpenLoop:
    return OpenLoop(asks(count, tokens=tokens))


def one_by_one(count: int, tokens: int = TOKENS) -> ClosedLoop:
    return ClosedLoop(1, asks(count, tokens=tokens))


@contextlib.contextmanager
def opened(url: str, **options: Any) -> Iterator[Client]:
    server = OpenAIServer()
    options = {"url": url, "probe": False, "timeout_s": 5.0} | options
    try:
        server.open(spec_of(inference("openai-http", options=options)), quiet)
        yield server.network_client
    finally:
        server.close()


def play(url: str, schedule: Schedule, **options: Any) -> list[Request]:
    """The rows of a schedule, after checking what holds whatever the server does."""
    rows: list[Request] = []
    watched = Watched(schedule)
    begin = time.monotonic()
    with opened(url, **options) as client:
        client.play(watched, rows.append)
    assert time.monotonic() - begin < 15, "it took far too long"
    assert sorted(scheduled.group for scheduled in watched.asked) == sorted(row.group for row in rows), (
        "one row for every request"
    )
    for row in rows:
        times = [row.intended_ns, row.sent_ns, *row.chunk_ns, row.end_ns]
        assert times == sorted(times)
        assert len(row.chunk_ns) == len(row.chunk_tokens)
        assert row.outcome != "ok" or sum(row.chunk_tokens) == row.output_tokens
        assert (row.error is None) == (row.outcome == "ok")
    return rows


def rows_of(behave: Behaviour, schedule: Schedule | None = None, **options: Any) -> list[Request]:
    with hostile(behave) as server:
        return play(server.url, schedule or one_by_one(2), **options)


def streamed(*events: bytes) -> Behaviour:
    """A behaviour: these events, a chunk each, and a good end of the body."""
    return lambda asked: asked.send(HEAD, *map(chunk, events), END)


def only(rows: list[Request]) -> Request:
    """The row that all rows are like."""
    assert len({(row.outcome, row.error, len(row.chunk_ns), row.chunk_tokens) for row in rows}) == 1
    return rows[0]


def closing(asked: Asked) -> None:
    asked.send(answer(asked.tokens).replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
    asked.close()


def silently_closing(asked: Asked) -> None:
    good(asked)
    asked.close()
