"""A server on a real socket that behaves as badly as a test asks: threads, loopback, gone when the test is."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
END = b"0\r\n\r\n"
Behaviour = Callable[["Asked"], None]


@dataclass
class Asked:
    """One request as it came: its number, head lines and JSON. `send` what you like; `close` or `reset` it."""

    number: int
    head: str
    body: dict[str, Any]
    sock: socket.socket
    is_over: threading.Event

    @property
    def tokens(self) -> int:
        return int(self.body.get("max_tokens", 0) or self.body.get("max_completion_tokens", 0))

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.sock.sendall(part)

    def wait(self, seconds: float) -> bool:
        """Sleep, less long when the test is over; whether it still goes on."""
        return not self.is_over.wait(seconds)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def chunk(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return b"%x\r\n%b\r\n" % (len(body), body)


def event(data: dict[str, Any] | str) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"data: {text}\n\n".encode()


def said(finish: str | None = None, **delta: Any) -> bytes:
    """One event of a chat completion."""
    return event({"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def usage(tokens: int, prompt: int = 7) -> bytes:
    """The event that only counts."""
    return event({"id": "x", "choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}})


def answer(tokens: int, text: str = " word", counted: int | None = None) -> bytes:
    """A whole good answer, framed."""
    parts = [said(role="assistant", content=""), *[said(content=text)] * tokens, said("length")]
    parts += [usage(tokens if counted is None else counted), DONE]
    return HEAD + b"".join(map(chunk, parts)) + END


def good(asked: Asked) -> None:
    asked.send(answer(asked.tokens))


@dataclass
class Hostile:
    """`url` of a running one; `asked` is what came."""

    url: str
    port: int
    asked: list[Asked] = field(default_factory=list)


@contextlib.contextmanager
def hostile(behave: Behaviour, *, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Hostile]:
    """A server that answers every POST by `behave`, one connection after another on each socket."""
    is_over, lock = threading.Event(), threading.Lock()
    listener = socket.create_server(("127.0.0.1", port), backlog=512)
    kind = "https" if tls else "http"
    server = Hostile(f"{kind}://127.0.0.1:{listener.getsockname()[1]}/v1", listener.getsockname()[1])
    socks: list[socket.socket] = []

    def serve(sock: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                sock = tls.wrap_socket(sock, server_side=True)
            while (found := _request(sock)) is not None:
                head, body = found
                with lock:
                    asked = Asked(len(server.asked), head, body, sock, is_over)
                    server.asked.append(asked)
                behave(asked)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                socks.append(sock)
                threading.Thread(target=serve, args=(sock,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server
    finally:
        is_over.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.close()


def _request(sock: socket.socket) -> tuple[str, dict[str, Any]] | None:
    got = b""
    while b"\r\n\r\n" not in got:
        if not (part := sock.recv(65536)):
            return None
        got += part
    head, _, body = got.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    length = next((int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")), 0)
    while len(body) < length:
        body += sock.recv(65536)
    if lines[0].startswith("GET"):
        sock.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        return _request(sock)
    return head.decode("latin-1"), json.loads(body)


def dribble(asked: Asked, data: bytes, pause_s: float = 0.0) -> None:
    """Byte by byte."""
    for i in range(len(data)):
        asked.send(data[i : i + 1])
        if pause_s:
            time.sleep(pause_s)
