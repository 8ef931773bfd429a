"""A backend that did not do its work: the kind of failure, in words, and what its answer said."""

from __future__ import annotations

from twinlens.gateway.outcome import Failure

_CLIENTS = frozenset({400, 404, 405, 409, 413, 415, 422})
"""Statuses that say the request is wrong: no other backend is asked, and the client is told."""


class Failed(Exception):
    """`status`, `body`: of its answer where there was one. `retry_after_s`: as it asked for."""

    def __init__(self, kind: Failure, said: str, *, status: int | None = None, body: bytes = b"",
                 retry_after_s: float | None = None) -> None:  # fmt: skip
        super().__init__(said)
        self.kind, self.said, self.status, self.body, self.retry_after_s = kind, said, status, body, retry_after_s

    @property
    def is_clients(self) -> bool:
        return self.kind == "status" and self.status in _CLIENTS
