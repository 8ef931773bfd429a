"""A server that keeps a stream open after its last token keeps the slot of a closed loop, and is no late client."""

from __future__ import annotations

import pytest
from hostile_server import DONE, END, HEAD, Asked, chunk, said, usage
from http_play import TOKENS, asks, rows_of

from twinlens.schedule.closed_loop import ClosedLoop

SILENCE_S = 0.3
TEXT = [*[said(content="x")] * TOKENS, said("length"), usage(TOKENS)]


def before_done(asked: Asked) -> None:
    asked.send(HEAD, *map(chunk, TEXT))
    asked.wait(SILENCE_S)
    asked.send(chunk(DONE), END)


def before_the_end(asked: Asked) -> None:
    asked.send(HEAD, *map(chunk, [*TEXT, DONE]))
    asked.wait(SILENCE_S)
    asked.send(END)


@pytest.mark.parametrize("behave", [before_done, before_the_end])
@pytest.mark.parametrize("concurrency", [1, 2])
def test_silence_after_the_last_token_is_not_the_clients(behave: object, concurrency: int) -> None:
    rows = sorted(rows_of(behave, ClosedLoop(concurrency, asks(6))), key=lambda row: row.sent_ns)  # type: ignore[arg-type]
    assert all(row.outcome == "ok" for row in rows)
    for row in rows:
        assert row.sent_ns - row.intended_ns < SILENCE_S * 1e9 / 2
        assert row.end_ns == row.chunk_ns[-1], "an answer lasts until its last token"
    for before, after in zip(rows, rows[concurrency:], strict=False):
        assert after.intended_ns - before.end_ns > SILENCE_S * 1e9 / 2
