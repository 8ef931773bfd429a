"""The end of an answer is known by its last bytes, and nothing that only looks like one is taken for it."""

from __future__ import annotations

import pytest
from hostile_server import DONE, END, HEAD, chunk, said, usage
from http_play import TOKENS
from test_openai_http_parts import Clocks

from twinlens.network.answer.fast_path import ends_in_chunks, is_one_chunk
from twinlens.network.connection import Exchange

TOKEN = chunk(said(content="x"))
LAST = TOKEN + chunk(said("length")) + chunk(usage(TOKENS)) + chunk(DONE) + END


@pytest.mark.parametrize("size", [1, 9, 15, 16, 17, 255, 256, 4095, 4096, 65536])
def test_a_piece_that_is_one_chunk_is_known_by_its_length(size: int) -> None:
    piece = b"%x\r\n%s\r\n" % (size, b"\n" * size)
    assert is_one_chunk(piece)
    assert not is_one_chunk(piece[:-1])
    assert not is_one_chunk(piece[1:])
    assert not is_one_chunk(piece + piece)
    assert ends_in_chunks(piece + piece + END)
    assert not ends_in_chunks(piece + piece)


def test_the_end_of_an_answer_inside_a_chunk_is_no_end() -> None:
    assert not ends_in_chunks(b"8\r\nx\r\n" + END)
    assert ends_in_chunks(b"8\r\nx\r\n" + END + b"\r\n" + END)
    assert not ends_in_chunks(b"")
    assert not ends_in_chunks(b"g\r\nx\r\n" + END)
    assert ends_in_chunks(b"A\r\n%s\r\n" % (b"x" * 10) + END)


@pytest.mark.parametrize("body", [b"data: x\r\n\r\n", b"data: 1\r\n0\r\n\r\n", b": 0\r\n\r\n"])
def test_an_end_is_seen_behind_chunks_that_hold_line_ends(body: bytes) -> None:
    exchange = Exchange(Clocks().offset(), 2**26, tokens=TOKENS)
    for data in (HEAD, TOKEN):
        exchange.got += (data, bytes(16), 1)
        exchange.look()
    assert exchange.is_complete(chunk(body) + LAST)
    assert not exchange.is_complete(chunk(body) + LAST + END)
    assert not exchange.is_complete(chunk(body)[:-1] + LAST)


@pytest.mark.parametrize(
    ("head", "last"),
    [
        (HEAD, TOKEN),
        (HEAD, LAST[:-1]),
        (HEAD, chunk(b": 0\r\n\r\n") + TOKEN),
        (HEAD, chunk(b": x" + END)[:-2]),  # in mid-chunk
        (HEAD, LAST + END),
        (HEAD, b"-1\r\n" + END),
        (HEAD.replace(b"200 OK", b"503 Busy"), LAST),
        (HEAD.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), LAST),
        (HEAD.replace(b"transfer-encoding: chunked", b"content-length: 100000"), LAST),
    ],
)
def test_nothing_follows_what_has_not_surely_ended_well(head: bytes, last: bytes) -> None:
    exchange = Exchange(Clocks().offset(), 2**26, tokens=TOKENS)
    for data in (head, TOKEN, TOKEN):
        exchange.got += (data, bytes(16), 1)
        exchange.look()
    exchange.got += (last, bytes(16), 2)
    assert not exchange.is_complete()


def test_what_looks_like_an_end_is_one_only_where_a_chunk_ends() -> None:
    exchange = Exchange(Clocks().offset(), 2**26, tokens=TOKENS)
    for data in (HEAD, TOKEN, TOKEN):
        exchange.got += (data, bytes(16), 1)
        exchange.look()
    exchange.got += (LAST, bytes(16), 2)
    assert exchange.is_complete()
