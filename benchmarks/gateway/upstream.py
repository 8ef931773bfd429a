"""A server that computes nothing: `python upstream.py PORT [GAP_S]`. Streams `max_tokens` tokens, one every so many
seconds, or answers in one piece. Nothing but the standard library: it must not be what limits a gateway."""

from __future__ import annotations

import asyncio
import json
import sys

GAP_S = 0.04
_EVENT = (
    'data: {{"id":"chatcmpl-null","object":"chat.completion.chunk","created":0,"model":"null",'
    '"choices":[{{"index":0,"delta":{},"logprobs":null,"finish_reason":{}}}]{}}}\n\n'
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_MODELS = {"object": "list", "data": [{"id": "null", "object": "model", "owned_by": "null"}], "status": "ok"}


def _chunk(text: str) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text.encode()), text.encode())


TOKEN = _chunk(_EVENT.format('{"content":" word"}', "null", ""))
ROLE = _chunk(_EVENT.format('{"role":"assistant","content":""}', "null", ""))


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    gap_s = GAP_S

    def __init__(self) -> None:
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._out: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, body = self._got.partition(b"\r\n\r\n")
        if not found:
            return
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"), 0)
        if len(body) < length:
            return
        self._got = b""
        if head[:4] != b"POST":
            self._whole(_MODELS)
            return
        asked = json.loads(body)
        tokens = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 16)  # sglang-router renames it
        if asked.get("stream"):
            self._out.write(HEAD + ROLE)
            loop = asyncio.get_running_loop()
            loop.call_at(loop.time() + self.gap_s, self._token, tokens, loop.time() + self.gap_s)
        else:
            message = {"role": "assistant", "content": " word" * tokens}
            choice = {"index": 0, "message": message, "finish_reason": "length"}
            self._whole({"id": "chatcmpl-null", "object": "chat.completion", "created": 0, "model": "null",
                         "choices": [choice], "usage": _usage(tokens)})  # fmt: skip

    def _token(self, left: int, due: float) -> None:
        if self._out.is_closing():
            return
        if left > 1:
            self._out.write(TOKEN)
            asyncio.get_running_loop().call_at(due + self.gap_s, self._token, left - 1, due + self.gap_s)
            return
        last = _EVENT.format("{}", '"length"', ',"usage":' + json.dumps(_usage(1)))
        self._out.write(TOKEN + _chunk(last) + _chunk("data: [DONE]\n\n") + b"0\r\n\r\n")

    def _whole(self, content: object) -> None:
        body = json.dumps(content).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self._out.write(head + body)


def _usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 8, "completion_tokens": tokens, "total_tokens": tokens + 8}


async def _serve(port: int, gap_s: float) -> None:
    Connection.gap_s = gap_s
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else GAP_S))
