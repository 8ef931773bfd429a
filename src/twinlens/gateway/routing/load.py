"""Load of one backend, as sums that each event changes: a decision never walks over requests."""

from __future__ import annotations

import math
from dataclasses import dataclass

RATE_OVER_S = 20.0
"""Time over which the rate of arrivals is averaged, with weights that fall exponentially."""
_LENGTH_WEIGHT = 0.01
"""Of one more prompt or answer in their means. A wait for a seat is as many answers as wait before it, so its error is
that of the mean: 7 % for lengths that differ as exponential ones do, and 16 % with a weight of 0.05."""
_TIME_WEIGHT = 0.05
_BYTES_WEIGHT = 0.98
ASSUMED_BYTES = 4.0
ASSUMED_ANSWER = 256.0


@dataclass(slots=True)
class Load:
    """Requests without a token (`waiting`) and with one (`decoding`). `prompts`: tokens of the prompts of those that
    decode; `firsts_ns`: sum of the times of their first tokens. `moved_ns`: when the prompts that wait were last seen
    to go on; `is_moving`: whether a step is known to work on them. `step_s`: seconds of a decode step, as last
    predicted. `answer_tokens`: of an answer, on average. `tokens`, `bytes`: of prompts that the server counted."""

    answer_tokens: float = ASSUMED_ANSWER
    waiting: int = 0
    waiting_tokens: float = 0.0
    waiting_squares: float = 0.0
    decoding: int = 0
    prompts: float = 0.0
    firsts_ns: int = 0
    moved_ns: int = 0
    is_moving: bool = False
    step_s: float = 0.0
    arrivals: float = 0.0
    arrived_ns: int = 0
    begun_ns: int = 0
    prompt_mean: float = 0.0
    tokens: float = 0.0
    bytes: float = 0.0
    counted: int = 0
    token_bytes: float = ASSUMED_BYTES
    request_s: float = 0.0
    view: tuple[int, int, float, float, float, float, float, float] | None = None
    view_until_ns: int = 0
    """What predictions take of it alone (predict.py), None since something began or ended."""

    @property
    def in_flight(self) -> int:
        return self.waiting + self.decoding

    def tokens_of(self, prompt_bytes: int) -> float:
        """Tokens of a prompt: by the bytes of a token of what this server counted so far; 4 until it counted any."""
        return max(1.0, prompt_bytes / self.token_bytes)

    def counts(self, prompt_bytes: int, tokens: int) -> None:
        """The server counted the tokens of a prompt."""
        if prompt_bytes > 0 and tokens > 0:
            self.bytes = self.bytes * _BYTES_WEIGHT + prompt_bytes
            self.tokens = self.tokens * _BYTES_WEIGHT + tokens
            self.counted += 1
            self.token_bytes = self.bytes / self.tokens

    def answered(self, tokens: int, took_s: float) -> None:
        """An answer had so many tokens, and took so long."""
        self.answer_tokens += _LENGTH_WEIGHT * (tokens - self.answer_tokens)
        self.request_s = took_s if not self.request_s else self.request_s + _TIME_WEIGHT * (took_s - self.request_s)

    def rate_per_s(self, now_ns: int) -> float:
        """Requests a second that come here, over the last `RATE_OVER_S`."""
        if not self.arrivals:
            return 0.0
        since_s = (now_ns - self.arrived_ns) / 1e9
        whole = 1.0 - math.exp(-max(1.0, (now_ns - self.begun_ns) / 1e9) / RATE_OVER_S)
        return self.arrivals * math.exp(-since_s / RATE_OVER_S) / (RATE_OVER_S * whole)

    def context(self, now_ns: int) -> float:
        """Tokens of KV cache that the decoding requests read: of their prompts, and of what they made since."""
        made = (self.decoding * now_ns - self.firsts_ns) / 1e9 / self.step_s if self.step_s else 0.0
        return self.prompts + min(max(0.0, made), 2 * self.answer_tokens * self.decoding)

    def begin(self, prompt: float, now_ns: int, *, waits: bool = True) -> None:
        """A request goes out. `waits`: its first token will be seen; else it counts as one that decodes."""
        self.view = None
        if self.arrivals:
            self.arrivals *= math.exp(-(now_ns - self.arrived_ns) / 1e9 / RATE_OVER_S)
        else:
            self.begun_ns = now_ns
        self.arrivals += 1
        self.arrived_ns = now_ns
        self.prompt_mean = (
            prompt if not self.prompt_mean else self.prompt_mean + _LENGTH_WEIGHT * (prompt - self.prompt_mean)
        )
        if not waits:
            self._decodes(prompt, now_ns, 1)
            return
        if not self.waiting:
            self.moved_ns, self.is_moving = now_ns, False
        self.waiting += 1
        self.waiting_tokens += prompt
        self.waiting_squares += prompt * prompt

    def first(self, prompt: float, now_ns: int) -> None:
        """Its first token is here."""
        self.view = None
        self._leaves(prompt)
        self.moved_ns, self.is_moving = now_ns, True
        self._decodes(prompt, now_ns, 1)

    def end(self, prompt: float, first_ns: int | None) -> None:
        """It is over: with a first token at `first_ns`, or without any."""
        self.view = None
        if first_ns is None:
            self._leaves(prompt)
        else:
            self._decodes(prompt, first_ns, -1)

    def _leaves(self, prompt: float) -> None:
        self.waiting -= 1
        self.waiting_tokens = self.waiting_tokens - prompt if self.waiting else 0.0
        self.waiting_squares = self.waiting_squares - prompt * prompt if self.waiting else 0.0

    def _decodes(self, prompt: float, first_ns: int, sign: int) -> None:
        self.decoding += sign
        self.prompts = self.prompts + sign * prompt if self.decoding else 0.0
        self.firsts_ns = self.firsts_ns + sign * first_ns if self.decoding else 0
