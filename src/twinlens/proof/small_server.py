"""Cases whose limit is known by construction, and a small OpenAI server that computes nothing.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Literal

from twinlens.spec.precision import AS_SERVED
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


# The cases: for each a real program and the resource it saturates; `reporting/judging/self_test.py` says why.

Program = Literal["spec", "slow-input", "two-processes", "server"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How the small server works. `slots`: sequences it runs at once; `kv_tokens`: those its cache holds; `tokenise_s`:
    processor time before a request is queued; `prefill_s`, `step_s`: of the engine, which sleeps so long."""

    slots: int = 8
    kv_tokens: int = 100_000
    tokenise_s: float = 0.0
    prefill_s: float = 0.004
    step_s: float = 0.008


@dataclass(frozen=True, slots=True)
class Case:
    """`expected`: the verdict, which is the name of the case too.

    `program`: "spec" is measured as any study; "slow-input" and "two-processes" put a trainer of ours in place of the
    embedded one, "server" starts a small server at `pace`. `config`: of the model, where it is none of the catalogue.
    """

    expected: str
    program: Program
    workload: Mapping[str, Any]
    point: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None
    pace: Pace = Pace()


def _llama(hidden: int, inner: int, layers: int) -> dict[str, Any]:
    """Few layers of large products: as little as possible happens between them."""
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 512, "hidden_size": hidden,
        "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": 8, "num_key_value_heads": 8,
        "hidden_act": "silu", "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
        "attention_bias": False, "mlp_bias": False, "bos_token_id": 1, "eos_token_id": 2, "dtype": "float32",
    }  # fmt: skip


def _tokens(count: int) -> dict[str, Any]:
    return {"kind": "fixed", "value": count}


def _served(output: int, **more: Any) -> dict[str, Any]:
    lengths = {"input_tokens": _tokens(32), "output_tokens": _tokens(output)}
    return {"kind": "inference", "model": "small", **lengths, "arrival": {"kind": "closed"}} | more


_TRAINED = {"kind": "training", "global_batch": 2, "seq_len": 128}
_DECODED = {"kind": "inference", "input_tokens": _tokens(8), "fidelity_prompts": 0}
_SHORT = {"duration_s": 3.0, "steady_s": 1.0, "min_rows": 8}
_SERVED = {"duration_s": 6.0, "steady_s": 2.0, "min_rows": 20, "ceilings": False}
_NO_ROOF = _SHORT | {"ceilings": False}
_AS_SERVED = {"precision": AS_SERVED.name}

CASES = (
    Case("compute-bound", "spec", _TRAINED, protocol=_SHORT, config=_llama(768, 3072, 2)),
    Case(
        "bandwidth-bound", "spec", _DECODED | {"output_tokens": _tokens(16)},
        protocol=_SHORT | {"min_rows": 3}, config=_llama(2048, 8192, 2),
    ),
    Case("below-ceilings", "spec", _DECODED | {"model": "tiny", "output_tokens": _tokens(16)}, protocol=_SHORT),
    Case("input-bound", "slow-input", _TRAINED | {"model": "tiny", "seq_len": 32}, protocol=_NO_ROOF),
    Case("interconnect-bound", "two-processes", _TRAINED | {"model": "tiny", "seq_len": 1}, protocol=_NO_ROOF),
    Case(
        "host-bound", "server", _served(8), _AS_SERVED | {"concurrency": 1}, _SERVED,
        pace=Pace(tokenise_s=0.06, step_s=0.004),
    ),
    Case("queue-bound", "server", _served(12), _AS_SERVED | {"concurrency": 8}, _SERVED, pace=Pace(slots=2)),
    Case("capacity-bound", "server", _served(16), _AS_SERVED | {"concurrency": 8}, _SERVED, pace=Pace(kv_tokens=112)),
)  # fmt: skip
"""In the order in which they are run, the longest first."""


def spec_data(case: Case, model: str | None, url: str, threads: int) -> dict[str, Any]:
    """The spec of a case. `model`: the path of its config, where it has one; `url`: of its server."""
    workload = dict(case.workload) | ({"model": model} if model else {})
    torch = {"kind": "torch", "device": "cpu", "threads": threads, "options": {"freed_memory": "kept"}}
    attached = {"kind": "openai-http", "options": {"url": url}}
    return {
        "schema": 1,
        "name": f"self-test-{case.expected}",
        "executor": attached if case.program == "server" else torch,
        "workload": workload,
        "point": dict(case.point),
        "protocol": {"repeats": 1, "extend": 0, "retakes": 0} | dict(case.protocol),
    }
