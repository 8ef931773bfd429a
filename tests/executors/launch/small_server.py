"""A model server in a hundred lines, run by path: real sockets, real processes, and as difficult as a test asks.

`small_server.py --port N [never|error|deaf|family|mortal|frail]`: never ready; a traceback at once; deaf to SIGTERM;
with a child in a session of its own; gone at its twelfth answer; gone at its first.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

PORT = int(sys.argv[sys.argv.index("--port") + 1])
MANNER = sys.argv[-1]
LIFE_S = 60.0
ANSWERS = 0


def event(**delta: object) -> bytes:
    finish = delta.pop("finish", None)
    said = {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(said).encode() + b"\n\n"


class Small(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/health" and MANNER == "never":
            self.send_error(503)
        elif self.path == "/health":
            self.say({"status": "ok"})
        elif self.path == "/v1/models":
            self.say({"object": "list", "data": [{"id": "small", "owned_by": "small"}]})
        elif self.path == "/about":
            self.say({"dtype": "torch.bfloat16", "limit": 7, "version": "1.2.3"})
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        global ANSWERS
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        ANSWERS += 1
        if MANNER == "frail" or (MANNER == "mortal" and ANSWERS > 12):
            print("RuntimeError: the small server has had enough", file=sys.stderr, flush=True)
            os._exit(1)
        tokens = asked["max_tokens"]
        parts = [event(role="assistant")] + [event(content=" word")] * tokens + [event(finish="length")]
        usage = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
        parts += [b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n", b"data: [DONE]\n\n"]
        body = b"".join(parts)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def say(self, data: object) -> None:
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def main() -> None:
    print("the small server starts", flush=True)
    signal.alarm(int(LIFE_S))  # whatever a broken test leaves behind is gone after a minute
    if MANNER == "error":
        raise RuntimeError("no weights here")
    if MANNER == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MANNER == "family":
        code = f"import signal, time; signal.alarm({int(LIFE_S)}); signal.signal(15, signal.SIG_IGN); time.sleep(99)"
        child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        Path(f"family-{PORT}.pid").write_text(str(child.pid))
    http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Small).serve_forever()


if __name__ == "__main__":
    main()
