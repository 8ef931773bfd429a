"""A small OpenAI server of Python's own kind, which answers as a test asks: for what comes before a measurement."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any]
"""Status, and what is sent: bytes as they are (a page; a stream of events), anything else as JSON."""


def stream(*events: dict[str, Any]) -> Answer:
    """An answer streamed as these events."""
    return 200, b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events) + b"data: [DONE]\n\n"


@dataclass
class Plain:
    """`models`: what it lists, or the answer in place of a list. `answers`: by path, in place of a good one, or what
    makes one of the body of a request.

    `key`: what it wants as a bearer token. `hangs`: paths that never answer. `asked`: method, path, key and body.
    """

    models: list[str] | Answer = field(default_factory=lambda: ["Qwen/Qwen3-8B"])
    answers: dict[str, Answer | Callable[[dict[str, Any]], Answer]] = field(default_factory=dict)
    key: str = ""
    hangs: tuple[str, ...] = ()
    url: str = ""
    asked: list[tuple[str, str, str, dict[str, Any]]] = field(default_factory=list)


@contextlib.contextmanager
def plain(server: Plain) -> Iterator[Plain]:
    """`server` on a free port of the loopback interface; its `url` goes as far as the port."""
    is_over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.take({})
            if self.path != "/v1/models":
                self.send(404, {"detail": "Not Found"})
            elif isinstance(server.models, tuple):
                self.send(*server.models)
            else:
                self.send(200, {"data": [{"id": name} for name in server.models]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.take(body)
            answer = server.answers.get(self.path, (200, {"choices": [{"text": "x"}]}))
            self.send(*(answer(body) if callable(answer) else answer))

        def take(self, body: dict[str, Any]) -> None:
            server.asked.append((self.command, self.path, self.headers.get("authorization", ""), body))
            if self.path in server.hangs:
                is_over.wait(60)

        def send(self, status: int, content: Any) -> None:
            if server.key and self.headers.get("authorization") != f"Bearer {server.key}":
                status, content = 401, {"error": "who are you?"}
            is_page = isinstance(content, bytes)
            body = content if is_page else json.dumps(content).encode()
            self.send_response(status)
            if status in (301, 308):
                self.send_header("location", content["to"])
            kind = "text/event-stream" if is_page and body.startswith(b"data:") else "text/html"
            self.send_header("content-type", kind if is_page else "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        is_over.set()
        http.shutdown()
        http.server_close()
        thread.join(5)
