"""A server on a real socket that has pages: what each holds is up to the test."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Page = Callable[[], tuple[int, bytes]]


@dataclass
class Pages:
    """`by_path`: what to answer. `asked`: path and headers of each request that came."""

    by_path: dict[str, Page]
    origin: str = ""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    redirects: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def pages(by_path: dict[str, Page], redirects: dict[str, str] | None = None) -> Iterator[Pages]:
    """Serve them on a free port of the loopback interface."""
    served = Pages(by_path, redirects=redirects or {})

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            served.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
            place = served.redirects.get(self.path)
            status, body = (307, b"") if place else served.by_path.get(self.path, lambda: (404, b"nothing"))()
            self.send_response(status)
            if place:
                self.send_header("location", place)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    served.origin = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def counting(step: int = 10) -> Page:
    """A page of vLLM whose count of tokens is `step` more each time."""
    readings = iter(range(0, 1 << 30, step))
    return lambda: (200, b'vllm:num_requests_running{engine="0"} 2\nvllm:generation_tokens_total %d\n' % next(readings))
