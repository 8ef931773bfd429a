"""A server that computes nothing: it streams the tokens asked for at the pace asked for, and knows when each left.

The client is calibrated against it: whatever a run against it shows beyond its pace is the client's own. Loopback only,
in a process of its own, which ends when told to, when its parent does, or after `life_s`.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import multiprocessing
import select
import socket
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from twinlens.system import spawned

_EVENT = (
    '{"id":"chatcmpl-null","object":"chat.completion.chunk","created":0,"model":"null",'
    '"choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}]%s}'
)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_MODELS = b'{"object":"list","data":[{"id":"null","object":"model","owned_by":"twinlens-null"}]}'
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Sent:
    """The truth about one answer: when the request was read whole and when each token left, ns, monotonic clock."""

    request_ns: int
    token_ns: np.ndarray


@dataclass(slots=True)
class NullServer:
    """A running one. `url`: as far as /v1. `truth` ends it and gives what it sent, in the order of the requests."""

    url: str
    _process: Any
    _pipe: Connection
    _truth: list[Sent] = field(default_factory=list)

    def truth(self) -> list[Sent]:
        """Stop it and say what really happened; empty if it was killed."""
        self.stop()
        return self._truth

    def stop(self) -> None:
        """End it surely; may be called again."""
        if self._process.is_alive():
            with contextlib.suppress(OSError, EOFError):
                self._pipe.send("stop")
                if self._pipe.poll(5):
                    self._truth = [Sent(at, np.frombuffer(times, np.int64)) for at, times in self._pipe.recv()]
            self._process.join(2)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


@contextlib.contextmanager
def null_server(ttft_s: float = 0.0, itl_s: float = 0.0, life_s: float = 600.0) -> Iterator[NullServer]:
    """Start one on a free port of the loopback interface, and stop it whatever happens.

    `ttft_s`: from the whole request to its first token; `itl_s`: between tokens (0: everything at once).
    A request may say both for itself, in its field `null_pace_s`.
    """
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(theirs, ttft_s, itl_s, life_s), daemon=True)
    spawned.start(process)
    theirs.close()
    server = NullServer("", process, ours)
    try:
        if not ours.poll(30):
            raise RuntimeError("the null server does not start")
        server.url = f"http://127.0.0.1:{ours.recv()}/v1"
        yield server
    finally:
        server.stop()
        ours.close()


def _chunk(delta: str, finish: str = "null", usage: str = "") -> bytes:
    event = b"data: " + (_EVENT % (delta, finish, usage)).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


_ROLE, _TOKEN = _chunk('{"role":"assistant","content":""}'), _chunk('{"content":" word"}')
_BURST = 256
_TOKENS = _TOKEN * _BURST


def _tail(prompt: int, tokens: int) -> bytes:
    usage = f',"usage":{{"prompt_tokens":{prompt},"completion_tokens":{tokens},"total_tokens":{prompt + tokens}}}'
    done = b"data: [DONE]\n\n"
    return _chunk("{}", '"length"', usage) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(done), done)


class _Stream:
    """One connection, and the answer it is in the middle of."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.got, self.out = sock, b"", b""
        self.tokens = self.prompt = self.number = self.ttft_ns = self.itl_ns = 0
        self.times: array[int] = array("q")


class _Null:
    def __init__(self, pipe: Connection, ttft_s: float, itl_s: float) -> None:
        self.pipe, self.ttft_ns, self.itl_ns = pipe, round(ttft_s * 1e9), round(itl_s * 1e9)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.listener.setblocking(False)
        self.epoll = select.epoll()
        self.epoll.register(self.listener.fileno(), select.EPOLLIN)
        self.epoll.register(pipe.fileno(), select.EPOLLIN)
        self.streams: dict[int, _Stream] = {}
        self.due: list[tuple[int, int, _Stream]] = []
        self.truth: list[tuple[int, array[int]]] = []
        self.number = 0

    def run(self, until_ns: int) -> None:
        self.pipe.send(self.listener.getsockname()[1])
        while (now := time.monotonic_ns()) < until_ns:
            while self.due and self.due[0][0] <= now:
                at_ns, number, stream = heapq.heappop(self.due)
                if stream.number == number and stream.tokens:
                    self.advance(stream, at_ns)
            wait_s = (self.due[0][0] - time.monotonic_ns()) / 1e9 if self.due else 0.5
            # The poll counts in milliseconds: wait short of the time, then ask again and again.
            for fd, _ in self.epoll.poll(max(0.0, wait_s - 0.001), 256):
                if fd == self.pipe.fileno():
                    return
                if fd == self.listener.fileno():
                    self.accept()
                elif fd in self.streams:
                    self.read(self.streams[fd])

    def accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = self.listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.streams[sock.fileno()] = _Stream(sock)
                self.epoll.register(sock.fileno(), select.EPOLLIN)

    def read(self, stream: _Stream) -> None:
        try:
            data = stream.sock.recv(65536)
        except BlockingIOError:
            self.send(stream, b"")
            return
        except OSError:
            data = b""
        if not data:
            self.drop(stream)
            return
        stream.got += data
        head, found, body = stream.got.partition(b"\r\n\r\n")
        if not found:
            return
        if head[:3] == b"GET":
            stream.got = b""
            content = _MODELS if b"/models" in head.split(b"\r\n", 1)[0] else b""
            kind = b"200 OK\r\ncontent-type: application/json" if content else b"404 Not Found"
            self.send(stream, b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(content), content))
            return
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"), 0)
        if len(body) >= length:
            stream.got = b""
            self.begin(stream, json.loads(body[:length]))

    def begin(self, stream: _Stream, asked: dict[str, Any]) -> None:
        now = time.monotonic_ns()
        self.number += 1
        stream.number = self.number
        stream.tokens = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 16)
        stream.prompt = sum(len(str(m.get("content", "")).split()) for m in asked.get("messages", ()))
        stream.times = array("q")
        self.truth.append((now, stream.times))
        self.send(stream, _HEAD + _ROLE)
        stream.ttft_ns, stream.itl_ns = self.ttft_ns, self.itl_ns
        if pace := asked.get("null_pace_s"):
            stream.ttft_ns, stream.itl_ns = (round(seconds * 1e9) for seconds in pace)
        if stream.ttft_ns:
            heapq.heappush(self.due, (now + stream.ttft_ns, stream.number, stream))
        else:
            self.advance(stream, now)

    def advance(self, stream: _Stream, at_ns: int) -> None:
        """The next token, or everything at once where no time lies between tokens."""
        sent = len(stream.times)
        count = 1 if stream.itl_ns else stream.tokens - sent
        now = time.monotonic_ns()
        stream.times.extend([now] * count)
        bursts, rest = divmod(count, _BURST)
        data = _TOKENS * bursts + _TOKENS[: rest * len(_TOKEN)]
        if sent + count == stream.tokens:
            data += _tail(stream.prompt, stream.tokens)
            stream.tokens = 0
        else:
            heapq.heappush(self.due, (at_ns + stream.itl_ns, stream.number, stream))
        self.send(stream, data)

    def send(self, stream: _Stream, data: bytes) -> None:
        stream.out += data
        try:
            while stream.out:
                stream.out = stream.out[stream.sock.send(stream.out) :]
        except BlockingIOError:
            self.epoll.modify(stream.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)
            return
        except OSError:
            self.drop(stream)
            return

    def drop(self, stream: _Stream) -> None:
        fd = stream.sock.fileno()
        if fd >= 0:
            self.streams.pop(fd, None)
            stream.sock.close()
        stream.tokens = 0


def _serve(pipe: Connection, ttft_s: float, itl_s: float, life_s: float) -> None:
    server = _Null(pipe, ttft_s, itl_s)
    server.run(time.monotonic_ns() + round(life_s * 1e9))
    with contextlib.suppress(OSError):
        pipe.send([(at, times.tobytes()) for at, times in server.truth])
