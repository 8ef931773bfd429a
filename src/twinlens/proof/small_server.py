"""A small OpenAI server with a real queue, slots and a KV cache that can be full; its engine sleeps instead of
computing.

It has the metrics page of vLLM, whose rules it follows: a request is admitted when its prompt fits, grows by a token a
step, and the youngest is put back (preempted) when there is no room. Loopback only, in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from twinlens.proof.case import Pace
from twinlens.system import spawned

_SPAWN = multiprocessing.get_context("spawn")
_NAME = "self-test"


@contextlib.contextmanager
def small_server(pace: Pace) -> Iterator[str]:
    """Start one on a free port, and stop it whatever happens; its address as far as /v1."""
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(theirs, pace), daemon=True)
    spawned.start(process)
    theirs.close()
    try:
        if not ours.poll(60):
            raise RuntimeError("the small server does not start")
        yield f"http://127.0.0.1:{ours.recv()}/v1"
    finally:
        ours.close()  # it ends when its end of the pipe does
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


@dataclass(eq=False)
class _Sequence:
    """One request in the engine. `out`: takes a token, None at the end."""

    prompt: int
    wanted: int
    arrived_s: float
    out: SimpleQueue[str | None] = field(default_factory=SimpleQueue)
    made: int = 0
    begun_s: float | None = None
    first_s: float | None = None
    is_new: bool = True

    @property
    def held(self) -> int:
        return self.prompt + self.made


class Engine:
    """Continuous batching: `step` admits, makes one token of each running sequence, and counts."""

    def __init__(self, pace: Pace) -> None:
        self.pace, self.lock = pace, threading.Lock()
        self.waiting: deque[_Sequence] = deque()
        self.running: list[_Sequence] = []
        self.total: dict[str, float] = dict.fromkeys(_COUNTERS, 0.0)

    def add(self, prompt: int, wanted: int) -> SimpleQueue[str | None]:
        """Queue a request; its tokens come out of what is returned, None last."""
        sequence = _Sequence(prompt, wanted, time.monotonic())
        with self.lock:
            self.waiting.append(sequence)
        return sequence.out

    @property
    def used(self) -> int:
        return sum(sequence.held for sequence in self.running)

    def step(self) -> bool:
        """One iteration, as long as it takes; False where there is nothing to do."""
        with self.lock:
            new = self._admit()
            self._make_room()
            busy = bool(self.running)
        if busy:
            time.sleep(self.pace.step_s + self.pace.prefill_s * new)
            with self.lock:
                self._advance(time.monotonic())
        return busy

    def page(self) -> str:
        """What /metrics says."""
        with self.lock:
            gauges = {
                "num_requests_running": len(self.running), "num_requests_waiting": len(self.waiting),
                "kv_cache_usage_perc": self.used / self.pace.kv_tokens,
            }  # fmt: skip
            lines = [f'vllm:{name}{{model_name="{_NAME}"}} {value}' for name, value in (gauges | self.total).items()]
        return "\n".join(lines) + "\n"

    def _admit(self) -> int:
        new = 0
        while self.waiting and len(self.running) < self.pace.slots:
            sequence = self.waiting[0]
            if self.running and self.used + len(self.running) + sequence.held + 1 > self.pace.kv_tokens:
                break
            self.running.append(self.waiting.popleft())
            new += 1
            if sequence.begun_s is None:
                sequence.begun_s = time.monotonic()
                self._count("request_queue_time_seconds", sequence.begun_s - sequence.arrived_s)
        return new

    def _make_room(self) -> None:
        while len(self.running) > 1 and self.used + len(self.running) > self.pace.kv_tokens:
            self.waiting.appendleft(self.running.pop())
            self.total["num_preemptions_total"] += 1

    def _advance(self, now_s: float) -> None:
        for sequence in list(self.running):
            sequence.made += 1
            sequence.out.put(" word")
            self.total["generation_tokens_total"] += 1
            if sequence.first_s is None:
                sequence.first_s = now_s
                self.total["prompt_tokens_total"] += sequence.prompt
                self._count("request_prefill_time_seconds", now_s - (sequence.begun_s or now_s))
            if sequence.made >= sequence.wanted:
                self.running.remove(sequence)
                self.total["request_success_total"] += 1
                self._count("request_decode_time_seconds", now_s - sequence.first_s)
                sequence.out.put(None)

    def _count(self, histogram: str, seconds: float) -> None:
        self.total[f"{histogram}_sum"] += seconds
        self.total[f"{histogram}_count"] += 1


_HISTOGRAMS = ("request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds")
_COUNTERS = (
    "num_preemptions_total", "generation_tokens_total", "prompt_tokens_total", "request_success_total",
    *(f"{name}_{end}" for name in _HISTOGRAMS for end in ("sum", "count")),
)  # fmt: skip


def _serve(pipe: Connection, pace: Pace) -> None:
    engine = Engine(pace)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(engine))
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True).start()
    threading.Thread(target=_run, args=(engine,), daemon=True).start()
    pipe.send(http.server_port)
    with contextlib.suppress(EOFError, OSError):
        pipe.recv()  # until whoever started it lets go


def _run(engine: Engine) -> None:
    while True:
        if not engine.step():
            time.sleep(0.0005)


def _tokenise(seconds: float) -> None:
    """Processor time of this thread in plain Python, as a tokenizer written in it would take."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(map(ord, "word " * 200))


def _handler_of(engine: Engine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                self._page("application/json", json.dumps({"object": "list", "data": [{"id": _NAME}]}))
            elif self.path == "/metrics":
                self._page("text/plain", engine.page())
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            wanted = int(body.get("max_tokens") or 1)
            _tokenise(engine.pace.tokenise_s)
            prompt = sum(str(message["content"]).count(" ") + 1 for message in body.get("messages", ()))
            tokens = engine.add(prompt, wanted)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            with contextlib.suppress(OSError):
                while (token := tokens.get()) is not None:
                    self._event({"index": 0, "delta": {"content": token}, "finish_reason": None})
                counted = {"prompt_tokens": prompt, "completion_tokens": wanted, "total_tokens": prompt + wanted}
                self._event({"index": 0, "delta": {}, "finish_reason": "length"}, usage=counted)
                self._chunk(b"data: [DONE]\n\n")
                self.wfile.write(b"0\r\n\r\n")

        def _event(self, choice: dict[str, Any], **more: Any) -> None:
            data = {"id": "x", "object": "chat.completion.chunk", "model": _NAME, "choices": [choice]} | more
            self._chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()

        def _page(self, kind: str, text: str) -> None:
            content = text.encode()
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler
