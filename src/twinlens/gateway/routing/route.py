"""A choice of a backend, with all that was known when it was made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from twinlens.gateway.backend import Backend


MOST_AHEAD = 50
"""Requests without a token, beyond which nothing is predicted: bands would be those of a time when fewer waited, and
miss (docs/results/coverage-gateway.md)."""


class Band(NamedTuple):
    """A prediction: its middle, and bounds that hold nine in ten. A tuple, as 32 are made in each decision."""

    middle: float
    low: float
    high: float


class Candidate(NamedTuple):
    """One backend when the choice was made. Predictions are None where nothing was measured that they could stand on,
    and where more than `MOST_AHEAD` wait there.

    `cost`: money of an output token, by its stated price (with its part of the prompt, where prompts are charged) or at
    the measured operating point of the highest rate; `joules`: of one, at that point.
    `out`: why it could not be chosen, "" where it could.
    """

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
    """One request in flight at a backend, as the router counts it. `prompt_tokens` is estimated from `prompt_bytes`.
    `first_ns`: of its first token; of a request that is not streamed, when it went out.

    `ttft_s`, `tpot_s`: what the law said without correction, None where there is none; `ttft_band`, `tpot_band`: what
    was predicted of it.
    """

    backend: str
    begin_ns: int
    prompt_tokens: float
    most_tokens: float
    prompt_bytes: int = 0
    streams: bool = True
    first_ns: int = 0
    ttft_s: float | None = None
    tpot_s: float | None = None
    ttft_band: Band | None = None
    tpot_band: Band | None = None
    is_trial: bool = False
    has_first: bool = False
    is_over: bool = False
