"""A choice of a backend, with all that was known when it was made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twinlens.gateway.backend import Backend


@dataclass(frozen=True, slots=True)
class Band:
    """A prediction: its middle, and bounds that hold nine in ten."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """One backend when the choice was made. Predictions are None where nothing was measured that they could stand on.
    `out`: why it could not be chosen, "" where it could."""

    backend: str
    in_flight: int
    ttft_s: Band | None = None
    tpot_s: Band | None = None
    cost: float | None = None
    joules: float | None = None
    out: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """`first_token_s`: how long its first token may take before another backend is tried; `hedge_s`: after which a
    second request may be sent, None where nothing says it. `reason`: in words, why this one."""

    backend: Backend
    candidates: tuple[Candidate, ...]
    reason: str
    first_token_s: float
    hedge_s: float | None = None

    @property
    def chosen(self) -> Candidate:
        return next(each for each in self.candidates if each.backend == self.backend.name)


@dataclass(slots=True)
class Ticket:
    """One request in flight at a backend, as the router counts it."""

    backend: str
    begin_ns: int
    prompt_tokens: float
    most_tokens: float
    made_tokens: int = 0
    has_first: bool = False
    is_over: bool = False
