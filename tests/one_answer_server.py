"""A server of embeddings, rankings (OpenAI's, Jina's and vLLM's forms) and images (KServe v2), for tests: it answers
well, or as a test twists it."""

from __future__ import annotations

import contextlib
import json
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSION, CLASSES, SHAPE = 6, 5, (3, 4, 4)
Twist = Callable[[dict[str, Any], int], Any]
"""Makes another answer of a good one and of the number of the request."""


@dataclass
class OneAnswer:
    """`twist`: changes good answers. `extensions`, `tensor`: of KServe's metadata. `asked`: path, headers, body."""

    twist: Twist = lambda said, number: said
    extensions: tuple[str, ...] = ("binary_tensor_data",)
    tensor: dict[str, Any] = field(default_factory=lambda: {"name": "x", "datatype": "FP32", "shape": [-1, *SHAPE]})
    ready: int = 200
    url: str = ""
    asked: list[tuple[str, dict[str, str], dict[str, Any], bytes]] = field(default_factory=list)


@contextlib.contextmanager
def serving(server: OneAnswer) -> Iterator[OneAnswer]:
    """`server` on a free port; its `url` goes as far as the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # head and body leave together

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            pages = {
                "/v1/models": {"data": [{"id": "m", "owned_by": "us"}]},
                "/v2": {"name": "tiny", "version": "1.2", "extensions": list(server.extensions)},
                "/v2/models/m": {
                    "name": "m",
                    "inputs": [server.tensor],
                    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, CLASSES]}],
                },
            }
            if self.path == "/v2/health/ready":
                self.send(server.ready, {})
            else:
                self.send(200 if self.path in pages else 404, pages.get(self.path, {"error": "no such page"}))

        def do_POST(self) -> None:
            whole = self.rfile.read(int(self.headers["content-length"]))
            head = int(self.headers.get("inference-header-content-length", len(whole)))
            body, raw = json.loads(whole[:head]), whole[head:]
            number = len(server.asked)
            server.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body, raw))
            said = server.twist(good(self.path, body, raw), number)
            self.send(*(said if isinstance(said, tuple) else (200, said)))

        def send(self, status: int, content: Any) -> None:
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    server.url = f"http://127.0.0.1:{listener.server_port}"
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()


def good(path: str, body: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """The answer that was asked for."""
    if path == "/v1/embeddings":
        texts = body["input"]
        data = [
            {"index": i, "embedding": [float(len(text) + k) for k in range(DIMENSION)]} for i, text in enumerate(texts)
        ]
        return {"data": data, "usage": {"prompt_tokens": sum(len(text.split()) + 2 for text in texts)}}
    if path == "/v1/rerank":
        results = [{"index": i, "relevance_score": 1 / (1 + i)} for i in range(len(body["documents"]))]
        return {"results": results[::-1], "usage": {"total_tokens": 77}}
    if path == "/v1/score":
        return {"data": [{"index": i, "score": 0.5} for i in range(len(body["text_2"]))]}
    tensor = body["inputs"][0]
    values = list(struct.unpack(f"<{len(raw) // 4}f", raw)) if raw else tensor["data"]
    images, each = tensor["shape"][0], len(values) // tensor["shape"][0]
    rows = [sum(values[i * each : (i + 1) * each]) + k for i in range(images) for k in range(CLASSES)]
    return {"outputs": [{"name": "y", "datatype": "FP32", "shape": [images, CLASSES], "data": rows}]}
