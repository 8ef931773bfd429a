"""The bytes of a request: what one scheduled request asks of a server, and a request for one of its pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol, Self

from twinlens.executors.http_client.answer.ended import Ended
from twinlens.executors.openai.row import row_of
from twinlens.executors.openai.target import PATHS, Target
from twinlens.record.request import Request
from twinlens.schedule.content.prompt import Words, messages, prompt_text
from twinlens.schedule.request import ScheduledRequest


class Requests(Protocol):
    """Writes requests of one kind, and makes the rows of their answers.

    `forces_length`: whether they say that an answer may not end before its limit; `free`: whether the model may end it.
    `most_json_bytes`: of an answer in one piece.
    """

    forces_length: bool
    free: bool
    most_json_bytes: int

    def of(self, scheduled: ScheduledRequest, answers: Sequence[str] = ()) -> bytes:
        """Head and body. `answers`: what was really said in the earlier turns of its session."""
        ...

    def row(self, scheduled: ScheduledRequest, ended: Ended, origin_ns: int) -> Request:
        """The row of an exchange that is over, times from `origin_ns`."""
        ...

    def in_one_piece(self) -> Self:
        """The same, but for answers that are not streamed."""
        ...

    def quoting(self, words: Words) -> Self:
        """The same with other words."""
        ...


class RequestWriter:
    """Makes the bytes of requests for tokens. `model`: the name that the server goes by."""

    most_json_bytes = 2 * 2**20

    def __init__(
        self, target: Target, words: Words, model: str, *, force_length: bool, with_usage: bool = True
    ) -> None:
        self._target, self._words = target, words
        self._path = target.path + PATHS[target.endpoint]
        self._head = head_lines(target.headers())
        self._fixed: dict[str, Any] = {"model": model, "stream": True, "temperature": 0}
        if with_usage:
            self._fixed["stream_options"] = {"include_usage": True}
        self._fixed |= target.body
        self.forces_length = force_length
        self.free = False

    def ending_freely(self) -> Self:
        """The same, for answers that end when the model is done."""
        other = copy(self)
        other.forces_length, other.free = False, True
        return other

    def in_one_piece(self) -> Self:
        """The same, but for answers that are not streamed."""
        other = copy(self)
        other._fixed = {key: value for key, value in self._fixed.items() if key != "stream_options"} | {"stream": False}
        return other

    def quoting(self, words: Words) -> Self:
        """The same with other words."""
        other = copy(self)
        other._words = words
        return other

    def row(self, scheduled: ScheduledRequest, ended: Ended, origin_ns: int) -> Request:
        """The row of an exchange that is over, times from `origin_ns`."""
        return row_of(scheduled, ended, origin_ns, free=self.free, forced=self.forces_length)

    def of(self, scheduled: ScheduledRequest, answers: Sequence[str] = ()) -> bytes:
        """Head and body. `answers`: what was really said in the earlier turns of its session."""
        if self._target.endpoint == "chat":
            asked: dict[str, Any] = {"messages": messages(scheduled, self._words, answers)}
        else:
            asked = {"prompt": prompt_text(scheduled, self._words)}
        asked[self._target.limit_field] = scheduled.output_tokens
        if self.forces_length:
            asked |= {"ignore_eos": True, "min_tokens": scheduled.output_tokens}
        body = json.dumps(asked | self._fixed, separators=(",", ":")).encode()
        return f"POST {self._path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """A server and how to ask it, found out once: another process takes it over (the API key is in it)."""

    target: Target
    requests: Requests


def page_request(target: Target, path: str) -> bytes:
    """A request for a page of the same server."""
    kept = {name: value for name, value in target.headers().items() if name not in ("Content-Type", "Accept")}
    return f"GET {path} HTTP/1.1\r\n{head_lines(kept)}\r\n".encode("latin-1")


def head_lines(headers: Mapping[str, str]) -> str:
    """Headers as they are sent."""
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())
