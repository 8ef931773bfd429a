"""Replicas behind one port: starts them, sends each request to the one with the fewest under way, and counts.

Run by path with a bare interpreter (standard library only): `balancer.py PORT READY JSON`, where JSON is a list of
{"port", "argv", "env"}. READY (a path) answers 200 once every replica does. /twinlens/replicas says for each replica
how many requests it was sent, how many it lost, and whether it lives. Each request has a connection of its own to its
replica. The replicas are children of this process: whoever ends it ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

_HEAD_BYTES, _PIECE_BYTES = 65536, 65536
_BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Replica:
    """One server. `under_way`: requests that it has now; `lost`: those that it did not finish."""

    def __init__(self, place: int, order: dict[str, Any]) -> None:
        self.place, self.port = place, int(order["port"])
        self.gpus = order["env"].get("CUDA_VISIBLE_DEVICES", "")
        self.process = subprocess.Popen(order["argv"], env={**os.environ, **order["env"]}, stdin=subprocess.DEVNULL)
        self.under_way = self.sent = self.lost = 0
        self.is_down = False

    def lives(self) -> bool:
        """Whether its process runs; its end is said once."""
        if not self.is_down and self.process.poll() is not None:
            self.is_down = True
            print(f"replica {self.place} ended with code {self.process.returncode}", flush=True)
        return not self.is_down

    def to_json(self) -> dict[str, Any]:
        return {
            "replica": self.place, "pid": self.process.pid, "port": self.port, "requests": self.sent,
            "lost": self.lost, "lives": self.lives(), "gpus": self.gpus,
        }  # fmt: skip


class Balancer:
    """`ready`: the path that says whether all are up."""

    def __init__(self, replicas: list[Replica], ready: str) -> None:
        self._replicas, self._ready = replicas, ready

    async def serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """One connection of a client: one request, answered by one replica."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await client.readuntil(b"\r\n\r\n")
            body = await client.readexactly(_length(head))
            path = head.split(b" ", 2)[1].decode("latin-1")
            if path == "/twinlens/replicas":
                back.write(_json({"cpu_s": time.process_time(), "replicas": [one.to_json() for one in self._replicas]}))
            elif path == self._ready:
                back.write(_json({}, 200 if await self._all_ready(head) else 503))
            else:
                await self._pass_on(_closing(head) + body, back)
            await back.drain()
        with contextlib.suppress(OSError):
            back.close()
            await back.wait_closed()

    async def _all_ready(self, head: bytes) -> bool:
        answers = await asyncio.gather(*(_status(one.port, _closing(head)) for one in self._replicas))
        return all(one.lives() for one in self._replicas) and set(answers) == {200}

    async def _pass_on(self, request: bytes, back: asyncio.StreamWriter) -> None:
        alive = [one for one in self._replicas if one.lives()]
        if not alive:
            back.write(_BAD_GATEWAY)
            return
        chosen = min(alive, key=lambda one: (one.under_way, one.sent))
        chosen.under_way += 1
        chosen.sent += 1
        try:
            if not await _relayed(chosen.port, request, back):
                chosen.lost += 1
                back.transport.abort()  # the client sees a connection that broke, as it did
        finally:
            chosen.under_way -= 1


async def _relayed(port: int, request: bytes, back: asyncio.StreamWriter) -> bool:
    """Send a request on and its answer back, as it comes; whether the answer ended in order."""
    try:
        answer, out = await asyncio.open_connection("127.0.0.1", port, limit=_PIECE_BYTES)
    except OSError:
        return False
    try:
        out.write(request)
        await out.drain()
        last = b""
        while piece := await answer.read(_PIECE_BYTES):
            back.write(piece)
            await back.drain()
            last = (last + piece)[-_HEAD_BYTES:]
        return _is_whole(last)
    except OSError:
        return False
    finally:
        out.close()


def _is_whole(tail: bytes) -> bool:
    """Whether an answer ended as it should: a stream with its last chunk or event, anything else with bytes."""
    is_stream = b"text/event-stream" in tail or b"data:" in tail
    return (tail.endswith(b"0\r\n\r\n") or b"[DONE]" in tail[-64:]) if is_stream else bool(tail)


async def _status(port: int, head: bytes) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        answer, out = await asyncio.open_connection("127.0.0.1", port)
        out.write(head)
        await out.drain()
        line = await asyncio.wait_for(answer.readline(), 5.0)
        out.close()
        return int(line.split()[1])
    return 0


def _length(head: bytes) -> int:
    names = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    return next((int(value) for name, _, value in names if name == b"content-length"), 0)


def _closing(head: bytes) -> bytes:
    """A head that asks for the connection to be closed after the answer, so that its end is the end of the bytes."""
    lines = [line for line in head.rstrip(b"\r\n").split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"connection: close", b"", b""])


def _json(data: object, status: int = 200) -> bytes:
    body = json.dumps(data).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"connection: close\r\n\r\n" + body


async def main(port: int, ready: str, orders: list[dict[str, Any]]) -> None:
    """Start the replicas, balance until a signal, end them."""
    replicas = [Replica(place, order) for place, order in enumerate(orders)]
    is_over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, is_over.set)
    server = await asyncio.start_server(Balancer(replicas, ready).serve, "127.0.0.1", port, limit=_HEAD_BYTES)
    async with server:
        while not is_over.is_set() and any(one.lives() for one in replicas):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), 0.2)
    for one in replicas:
        one.process.terminate()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
