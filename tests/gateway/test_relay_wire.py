"""Connections to a backend: used again, given up, and the same bytes however they were cut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from scripted import in_loop

from twinlens.gateway.relay.wire import Broken, Pool

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENTS = (b"data: one\n\n", b"data: two\n\n" * 30, b"data: three\n\n")
CHUNKED = HEAD + b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in EVENTS) + b"0\r\n\r\n"


class Server:
    """Answers each request by the next of `answers`, in pieces. `connections`: how many were made to it."""

    def __init__(self, answers: list[list[bytes]]) -> None:
        self.answers, self.connections, self.heads = answers, 0, list[bytes]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                await reader.readexactly(2)
                for piece in self.answers.pop(0):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def with_pool(answers: list[list[bytes]], check: Callable[[Pool, Server], Awaitable[None]], key: str = "") -> None:
    async def run() -> None:
        server = Server(answers)
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        pool = Pool(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1", key)
        try:
            await check(pool, server)
        finally:
            pool.close()
            listening.close()

    in_loop(run())


async def flowed(pool: Pool) -> bytes:
    wire = await pool.post("/chat/completions", b"{}")
    await wire.head()
    got: list[bytes] = []
    pauses = [True]

    def take(data: bytes) -> bool:
        got.append(data)
        pauses[0] = len(got) % 3 == 0  # every third time no more is wanted for a while
        return not pauses[0]

    while pauses[0]:
        pauses[0] = False
        await wire.flow(take)
    wire.close()
    return b"".join(got)


@pytest.mark.parametrize("size", [1, 7, 12, 60, len(CHUNKED)])
def test_a_body_is_the_same_however_it_was_cut_and_its_connection_is_used_again(size: int) -> None:
    cut = [CHUNKED[at : at + size] for at in range(0, len(CHUNKED), size)]
    whole_chunks = [HEAD, *(b"%x\r\n%b\r\n" % (len(each), each) for each in EVENTS), b"0\r\n\r\n"]

    async def check(pool: Pool, server: Server) -> None:
        for _ in range(3):
            assert await flowed(pool) == b"".join(EVENTS)
        assert server.connections == 1

    with_pool([cut, whole_chunks, cut], check)


def test_an_answer_that_breaks_off_says_how_far_it_was() -> None:
    async def check(pool: Pool, server: Server) -> None:
        with pytest.raises(Broken) as begun:
            await flowed(pool)
        assert begun.value.has_begun

    with_pool([[CHUNKED[:-9]]], check)

    async def says_nothing(pool: Pool, server: Server) -> None:
        wire = await pool.post("/chat/completions", b"{}")
        with pytest.raises(Broken) as silent:
            await wire.head()
        assert not silent.value.has_begun

    with_pool([[]], says_nothing)


def test_what_comes_after_an_answer_is_not_the_next_one() -> None:
    async def check(pool: Pool, server: Server) -> None:
        assert await flowed(pool) == b"".join(EVENTS)
        assert await flowed(pool) == b"".join(EVENTS)
        assert server.connections == 2

    with_pool([[CHUNKED + HEAD], [CHUNKED]], check)


def test_a_request_says_its_host_its_key_and_its_length() -> None:
    async def check(pool: Pool, server: Server) -> None:
        await flowed(pool)
        lines = server.heads[0].decode().split("\r\n")
        assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
        assert {"Authorization: Bearer k", "Content-Length: 2", "Accept-Encoding: identity"} <= set(lines)
        assert lines[1].startswith("Host: 127.0.0.1:")

    with_pool([[CHUNKED]], check, key="k")


def test_an_address_where_clouds_keep_their_keys_is_not_asked() -> None:
    async def ask() -> None:
        with pytest.raises(OSError, match="link-local"):
            await Pool("http://169.254.169.254/v1").post("/chat/completions", b"{}")

    in_loop(ask())
