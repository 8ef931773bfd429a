"""One backend as the router has it: what is in flight, how well it is, how far predictions were off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twinlens.gateway.asked import Asked
from twinlens.gateway.backend import Backend
from twinlens.gateway.outcome import Failure
from twinlens.gateway.routing.calibration import Calibration
from twinlens.gateway.routing.health import Health
from twinlens.gateway.routing.load import Load
from twinlens.gateway.routing.predict import Predictor
from twinlens.gateway.routing.route import MOST_AHEAD, Band, Candidate, Ticket
from twinlens.gateway.routing.served import cost_of

if TYPE_CHECKING:  # reading runs is heavy, and a gateway without them does not
    from twinlens.gateway.routing.measured import Measured

_candidate = _band = tuple.__new__
"""Without the checks of a named tuple, which would be a third of a decision."""
_NOTHING = ("", "")
_SURELY = 0.7
"""Of the tokens that bytes seem to be: as many as a prompt has at least, when it is refused for its length."""


@dataclass(slots=True)
class State:
    """`known`: the predictor of its law, None where nothing is predicted of it."""

    backend: Backend
    load: Load = field(default_factory=Load)
    health: Health = field(default_factory=Health)
    ttft: Calibration = field(default_factory=Calibration)
    tpot: Calibration = field(default_factory=Calibration)
    known: Predictor | None = None
    cost: float | None = None
    prompt_cost: float = 0.0
    joules: float | None = None
    _measured: Measured | None = None

    def renew(self, backend: Backend, currency: str) -> None:
        """It is known by other facts from now on; what is in flight stays, and so does what was learnt of its law."""
        self.backend = backend
        measured = backend.measured if backend.predicts else None
        price = cost_of(backend, currency)
        self.cost = None if price is None else float(price.output)
        self.prompt_cost = 0.0 if price is None else float(price.input)
        self.joules = measured.point.joules_per_token if measured and measured.point else None
        if measured is self._measured:
            return
        self._measured, self.known = measured, measured.predictor() if measured else None
        self.ttft, self.tpot = Calibration(), Calibration()
        if measured is not None:
            self.load.answer_tokens = max(1.0, measured.answer_tokens)
            self.ttft.start(measured.misses.ttft)
            self.tpot.start(measured.misses.tpot)

    @property
    def tails_s(self) -> dict[str, float]:
        """Quantiles of TTFT that were measured of it; none where it is not the server that was measured."""
        return self._measured.tails_s if self._measured else {}

    def answer_of(self, asked: Asked) -> float:
        """Tokens of an answer to expect: as answers here have on average, and no more than are asked for."""
        most = asked.most_tokens
        return self.load.answer_tokens if most is None else min(float(most), self.load.answer_tokens)

    def out(self, asked: Asked, now_ns: int) -> tuple[str, str]:
        """Why it may not be asked: of which kind, and in words; ("", "") where it may."""
        backend, health = self.backend, self.health
        if asked.kind not in backend.endpoints:
            return "endpoint", f"it has no {asked.kind}"
        if backend.longest_tokens is not None:
            longest = self.load.tokens_of(asked.prompt_bytes) * _SURELY + (asked.most_tokens or 1)
            if longest > backend.longest_tokens:
                return "window", f"prompt and answer are beyond its {backend.longest_tokens} tokens"
        if backend.most_in_flight is not None and self.load.in_flight >= backend.most_in_flight:
            return "full", f"it has the {backend.most_in_flight} that it may have"
        if health.rests_until_ns == 0:
            return _NOTHING
        why = health.out(now_ns)
        return ("rest", why) if why else _NOTHING

    def candidate(self, asked: Asked, now_ns: int, out: str = "") -> Candidate:
        """As it stands in a decision."""
        load = self.load
        if self.known is None or out or load.waiting > MOST_AHEAD:
            cost = self._cost(load.tokens_of(asked.prompt_bytes), self.answer_of(asked))
            return Candidate(self.backend.name, load.in_flight, None, None, cost, self.joules, out)
        answer, most = load.answer_tokens, asked.most_tokens
        if most is not None and most < answer:
            answer = most
        prompt = asked.prompt_bytes / load.token_bytes
        ttft_s, tpot_s = self.known.both_s(load, now_ns, prompt if prompt > 1.0 else 1.0, answer)
        first, later = self.ttft.factors, self.tpot.factors
        return _candidate(Candidate, (
            self.backend.name, load.waiting + load.decoding,
            None if first is None else _band(Band, (ttft_s * first[0], ttft_s * first[1], ttft_s * first[2])),
            None if later is None else _band(Band, (tpot_s * later[0], tpot_s * later[1], tpot_s * later[2])),
            self.cost if not self.prompt_cost else self._cost(prompt, answer), self.joules, "",
        ))  # fmt: skip

    def _cost(self, prompt: float, answer: float) -> float | None:
        """Of an output token, with its part of the prompt where prompts are charged beside it."""
        return self.cost if self.cost is None else self.cost + self.prompt_cost * prompt / max(1.0, answer)

    def free_in_s(self, now_ns: int) -> float:
        """Seconds until a further request may come: by the law; without one, by how long requests took so far; 1 s
        where nothing is known."""
        if self.known is not None:
            return self.known.free_in_s(self.load, now_ns)
        return self.load.request_s / max(1, self.load.in_flight) or 1.0

    def begin(self, asked: Asked, now_ns: int, bands: tuple[Band | None, Band | None]) -> Ticket:
        """A request goes out to it."""
        prompt = self.load.tokens_of(asked.prompt_bytes)
        answer = self.answer_of(asked)
        ttft_s, tpot_s = self.known.both_s(self.load, now_ns, prompt, answer) if self.known else (None, None)
        waits = asked.streams
        self.load.begin(prompt, now_ns, waits=waits)
        return Ticket(
            self.backend.name, now_ns, prompt, answer, asked.prompt_bytes, streams=waits, first_ns=now_ns,
            ttft_s=ttft_s, tpot_s=tpot_s, ttft_band=bands[0], tpot_band=bands[1], is_trial=self.health.begin(),
            has_first=not waits,
        )  # fmt: skip

    def first(self, ticket: Ticket, now_ns: int) -> None:
        """The first content of a stream is here."""
        self.load.first(ticket.prompt_tokens, now_ns)
        self.health.works()
        if ticket.ttft_s is not None:
            self.ttft.learn(ticket.ttft_s, (now_ns - ticket.begin_ns) / 1e9, ticket.ttft_band)

    def end(
        self, ticket: Ticket, now_ns: int, failure: Failure, input_tokens: int | None, output_tokens: int | None,
        retry_after_s: float | None, *, is_busy: bool,
    ) -> None:  # fmt: skip
        """A request of it is over. What failed teaches nothing of times, but that a first token took longer."""
        self.load.end(ticket.prompt_tokens, ticket.first_ns if ticket.has_first else None)
        self.health.end(now_ns, failure, is_trial=ticket.is_trial, retry_after_s=retry_after_s, is_busy=is_busy)
        band = ticket.ttft_band
        if not ticket.has_first and band is not None and (now_ns - ticket.begin_ns) / 1e9 > band.high:
            self.ttft.missed_above()
        if failure:
            return
        if input_tokens is not None:
            self.load.counts(ticket.prompt_bytes, input_tokens)
        if output_tokens is not None and output_tokens > 0:
            self.load.answered(output_tokens, (now_ns - ticket.begin_ns) / 1e9)
        if ticket.streams and ticket.tpot_s is not None and output_tokens is not None and output_tokens > 1:
            true_s = (now_ns - ticket.first_ns) / 1e9 / (output_tokens - 1)
            self.tpot.learn(ticket.tpot_s, true_s, ticket.tpot_band)
