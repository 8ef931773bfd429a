"""A server and how to ask it, as one value; and who writes its requests and reads its answers: a dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from twinlens.network.answer.ended import Ended
from twinlens.network.target import Target
from twinlens.record.request import Request
from twinlens.schedule.prompt import Words
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


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """A server and how to ask it, found out once: another process takes it over (the API key is in it)."""

    target: Target
    requests: Requests


def head_lines(headers: Mapping[str, str]) -> str:
    """Headers as they are sent."""
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())
