"""Routing played in virtual time: the gateway's router in front of simulated engines, and what its decisions cost.

`python -m benchmarks.gateway_routing`: microseconds of a decision for 16 backends. How often predictions hold is told
by coverage/gateway.py. No request is sent: engines are simulation/engine.py, arrivals are Poisson.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from twinlens.gateway.asked import Asked
from twinlens.gateway.backend import Backend
from twinlens.gateway.routing.measured import Measured, Point
from twinlens.gateway.routing.replay import Misses
from twinlens.gateway.routing.route import Band, Ticket
from twinlens.gateway.routing.router import Router
from twinlens.gateway.settings import BackendSettings, GatewaySettings
from twinlens.simulation.engine import Engine
from twinlens.simulation.law import Affine, StepLaw
from twinlens.simulation.noise import Noise
from twinlens.simulation.points.basis import Basis
from twinlens.simulation.rules import Rules
from twinlens.simulation.state.sequence import Sequence as Answer

LAW = StepLaw((Affine(8e-3, 1e-4, 1e-7, 3e-5, 2e-9),), 2e-3, 1e-3, "fitted", "a benchmark")
BYTES = 4


@dataclass(frozen=True, slots=True)
class Truth:
    """One request as it came true, beside what was predicted, and what the law said of its TTFT; seconds."""

    backend: str
    ttft_s: float
    predicted: Band | None
    tpot_s: float | None
    predicted_tpot: Band | None
    law_ttft_s: float | None = None


@dataclass(slots=True)
class Play:
    """Engines behind one router. `laws`: of each backend as it really is; `slower(time_s)`: a drift of all of them."""

    router: Router
    engines: list[Engine]
    after_s: float
    told: list[Truth] = field(default_factory=list)
    _open: list[tuple[int, Answer, Ticket]] = field(default_factory=list)

    def until(self, at_s: float) -> None:
        """All that happens before `at_s` is told to the router, in order."""
        for each in self.engines:
            each.run_until(at_s)
        events: list[tuple[float, int, Answer, Ticket]] = []
        still: list[tuple[int, Answer, Ticket]] = []
        for entry in self._open:
            _, answer, ticket = entry
            first_s, end_s = answer.first_token_s + self.after_s, answer.end_s + self.after_s
            if not ticket.has_first and first_s <= at_s:
                events.append((first_s, 0, answer, ticket))
            if end_s <= at_s:
                events.append((end_s, 1, answer, ticket))
            else:
                still.append(entry)
        self._open = still
        for when_s, kind, answer, ticket in sorted(events, key=lambda each: each[:2]):
            if kind == 0:
                self.router.first(ticket, round(when_s * 1e9))
            else:
                self._end(answer, ticket, when_s)

    def send(self, at_s: float, prompt: int, output: int, before_s: float) -> None:
        self.until(at_s)
        asked = asked_of(prompt * BYTES, None)
        route = self.router.route(asked, frozenset(), round(at_s * 1e9))
        ticket = self.router.begin(route, asked, round(at_s * 1e9))
        place = next(n for n, each in enumerate(self.router.backends) if each is route.backend)
        answer = self.engines[place].add(at_s + before_s, prompt, output)
        self._open.append((place, answer, ticket))

    def _end(self, answer: Answer, ticket: Ticket, end_s: float) -> None:
        first_s = ticket.first_ns / 1e9
        tpot_s = (end_s - first_s) / (answer.output - 1) if answer.output > 1 else None
        begin_s = ticket.begin_ns / 1e9
        self.told.append(
            Truth(ticket.backend, first_s - begin_s, ticket.ttft_band, tpot_s, ticket.tpot_band, ticket.ttft_s)
        )
        self.router.end(ticket, round(end_s * 1e9), "", answer.prompt, answer.output)


def asked_of(prompt_bytes: int, most_tokens: int | None, model: str = "m", prefix: int = 0) -> Asked:
    return Asked("chat", model, {}, True, False, prompt_bytes, most_tokens, prefix, False)


def measured(law: StepLaw, rules: Rules, answer: float, prompt: float, misses: Misses) -> Measured:
    """As a run that taught this law would say it."""
    point = Point("r", 1000.0, None, "no SLO was set", 0.5)
    return Measured(
        ("r",), Basis(law, rules), "", rules, {"p50": 0.1, "p90": 0.2, "p95": 0.3, "p99": 0.5}, answer, prompt, point,
        misses=misses,
    )  # fmt: skip


def started(seed: int, spread: float = 0.2) -> Misses:
    """Misses that a run might have begun with."""
    drawn = random.Random(seed)
    logs = [tuple(drawn.gauss(0, spread) for _ in range(60)) for _ in range(2)]
    return Misses(*logs)


def play(
    laws: Sequence[StepLaw],
    *,
    rate_per_s: float,
    requests: int,
    seed: int = 0,
    prompt: float = 400.0,
    output: float = 60.0,
    rules: Rules | None = None,
    noise: float = 0.0,
    policy: str = "least-ttft",
    change: Callable[[float], float] | None = None,
) -> Play:
    """Poisson arrivals, lengths drawn from exponential distributions. All backends say the law `LAW`; `laws` are theirs
    in truth, times `change(share)` of the traffic that is over (drift)."""
    rules = rules or Rules(max_num_batched_tokens=2048, max_num_seqs=64)
    known = measured(LAW, rules, output, prompt, started(seed))
    backends = [Backend(f"b{n}", "", "m", measured=known, identity="same") for n in range(len(laws))]
    settings = GatewaySettings(
        policy=policy, backend=tuple(BackendSettings(name=each.name, url="http://x") for each in backends)
    )  # type: ignore[arg-type]
    drawn = np.random.default_rng(seed)
    factors = np.exp(drawn.normal(-noise * noise / 2, noise, 4096)) if noise else None
    engines = [
        Engine(rules, law, Noise(factors, seed) if factors is not None else None, number=n, tokens=False)
        for n, law in enumerate(laws)
    ]
    made = Play(Router(backends, settings), engines, LAW.after_s)
    at_s = 0.0
    for place in range(requests):
        at_s += float(drawn.exponential(1 / rate_per_s))
        if change is not None:
            for engine, law in zip(engines, laws, strict=True):
                engine.law = times(law, change(place / requests))
        made.send(at_s, 1 + int(drawn.exponential(prompt)), 2 + int(drawn.exponential(output)), LAW.before_s)
    made.until(at_s + 3600.0)
    return made


def times(law: StepLaw, factor: float) -> StepLaw:
    parts = tuple(
        Affine(*(getattr(each, name) * factor for name in ("fixed_s", "row_s", "context_s", "token_s", "pair_s")))
        for each in law.parts
    )
    return StepLaw(parts, law.before_s, law.after_s, law.origin, law.source)


def held(told: Sequence[Truth], which: str = "ttft") -> tuple[int, int]:
    """How many bands had the true value, of how many there were."""
    pairs = [(each.ttft_s, each.predicted) if which == "ttft" else (each.tpot_s, each.predicted_tpot) for each in told]
    judged = [band.low <= true <= band.high for true, band in pairs if band is not None and true is not None]
    return sum(judged), len(judged)


def decision_us(backends: int = 16, tries: int = 4000) -> tuple[float, float]:
    """Microseconds of CPU of `route` with so many backends, each with requests in flight: median, and 99 of 100."""
    rules = Rules(max_num_batched_tokens=2048, max_num_seqs=64)
    known = measured(LAW, rules, 60, 400, started(0))
    group = [Backend(f"b{n}", "", "m", measured=known, identity="same") for n in range(backends)]
    router = Router(group, GatewaySettings(backend=(BackendSettings(name="b", url="http://x"),)))
    asked, now_ns = asked_of(1600, 100), 1
    for _ in range(10 * backends):
        ticket = router.begin(router.route(asked, frozenset(), now_ns), asked, now_ns)
        now_ns += 5_000_000
        if now_ns % 2:
            router.first(ticket, now_ns)
    took = []
    for _ in range(tries):
        ticket = router.begin(router.route(asked, frozenset(), now_ns), asked, now_ns)  # three things happen meanwhile
        now_ns += 5_000_000
        router.first(ticket, now_ns)
        router.end(ticket, now_ns + 1, "", None, 60)
        begin = time.thread_time_ns()
        router.route(asked, frozenset(), now_ns)
        took.append((time.thread_time_ns() - begin) / 1e3)
    return statistics.median(took), sorted(took)[int(0.99 * tries)]


def main() -> None:
    median, tail = decision_us()
    print(f"A decision among 16 backends: {median:.1f} µs, 99 of 100 within {tail:.1f} µs.")


if __name__ == "__main__":
    main()
