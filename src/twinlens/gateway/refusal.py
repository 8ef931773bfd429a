"""Refusals in OpenAI's shape: one clear sentence, a kind that its clients know, and the status."""

from __future__ import annotations

import json
import math

from aiohttp import web

_KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 402: "insufficient_quota", 403: "permission_error",
    404: "not_found_error", 408: "timeout_error", 413: "invalid_request_error", 429: "rate_limit_error",
}  # fmt: skip


class Refusal(Exception):
    """A request that is not served: `status`, `param`: the wrong field; `retry_after_s` where waiting helps."""

    def __init__(self, status: int, sentence: str, *, param: str | None = None, code: str | None = None,
                 retry_after_s: float | None = None) -> None:  # fmt: skip
        super().__init__(sentence)
        self.status, self.sentence, self.param, self.code = status, sentence, param, code
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, object]:
        kind = _KINDS.get(self.status, "server_error")
        return {"error": {"message": self.sentence, "type": kind, "param": self.param, "code": self.code}}

    def answer(self) -> web.Response:
        headers = {}
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after_s)))
        return web.json_response(self.body(), status=self.status, headers=headers)

    def event(self) -> bytes:
        """The same inside a stream that has begun."""
        return b"data: " + json.dumps(self.body(), separators=(",", ":")).encode() + b"\n\n"
