"""Outcome of one request: its attempts, its times and counts, from which rows, counters and spans are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from twinlens.gateway.asked import Asked
    from twinlens.gateway.routing.route import Route

Ending = Literal["ok", "refused", "failed", "cut_off", "left"]
"""`refused`: no backend was asked. `left`: the client went away before the end."""
Failure = Literal["", "connect", "first token late", "status", "broken", "malformed", "error event", "late", "hedged"]


@dataclass(slots=True)
class Attempt:
    """One backend that was asked. Times in ns of the monotonic clock; `first_ns`: its first content, None where none
    came. `failure`: "" where it went on to the end; "hedged": another one was faster. `said`: in words."""

    backend: str
    route: Route
    begin_ns: int
    first_ns: int | None = None
    end_ns: int = 0
    status: int | None = None
    failure: Failure = ""
    said: str = ""
    output_tokens: int = 0


@dataclass(slots=True)
class Outcome:
    """One request. `intended_ns`: when its head had been read. `chunk_ns`, `chunk_tokens`: of each read that brought
    content to the client, and the content events in it: tokens, where a backend sends one an event.

    `input_tokens`, `output_tokens`: as the backend counted, None where it did not. `status`: as the client was told.
    """

    id: str
    key: str
    intended_ns: int
    asked: Asked | None = None
    model: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    chunk_ns: list[int] = field(default_factory=list)
    chunk_tokens: list[int] = field(default_factory=list)
    end_ns: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    ending: Ending = "ok"
    status: int = 200
    error: str = ""
    queued_ns: int = 0
    """From its head until the queue let it go, or gave it up; 0 where it did not wait."""
    is_sent: bool = False
    """All of the answer was handed to the connection: a client that leaves now has it."""
    money: Decimal | None = None
    """What it cost, with all attempts; None where no price or no count is known."""

    @property
    def last(self) -> Attempt | None:
        """The attempt that answered; where none did, the one that was made last."""
        answered = (each for each in reversed(self.attempts) if not each.failure)
        return next(answered, self.attempts[-1] if self.attempts else None)
