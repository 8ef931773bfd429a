"""`python -m benchmarks.coverage.limits [RUNS]`: verdicts on an SLO that a server keeps exactly, or clearly."""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq

from benchmarks.coverage.truths import rows
from twinlens.spec.slo import Slo
from twinlens.stats.serving.goodput import goodput, slo_standing
from twinlens.stats.serving.latency import latency

LENGTHS = (200, 1000, 3000)
QUANTILE, CLEARLY = 0.9, 0.97
_BURN_IN, _BETWEEN = 5000, 100
_WAVE, _SWING = 20.0, 0.3  # service times that a wave stays on average, and how far arrivals leave their mean


@dataclass(frozen=True, slots=True)
class Queue:
    """`arrivals`: M (independent), G (gamma gaps, CV 2) or W (in waves). `services`: M, D (alike) or L (lognormal)."""

    arrivals: str
    services: str
    servers: int
    load: float

    @property
    def name(self) -> str:
        return f"{self.arrivals}/{self.services}/{self.servers}, load {self.load:g}"

    def run(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """When `count` requests were due and ended, in service times, after the server has filled up."""
        due, service = np.cumsum(self._gaps(rng, count + _BURN_IN)), self._service(rng, count + _BURN_IN)
        free, ends = [0.0] * self.servers, np.empty(due.size)
        for i, (at, needs) in enumerate(zip(due.tolist(), service.tolist(), strict=True)):
            ends[i] = max(free[0], at) + needs
            heapq.heapreplace(free, ends[i])
        return due[_BURN_IN:], ends[_BURN_IN:]

    def _gaps(self, rng: np.random.Generator, count: int) -> np.ndarray:
        rate = self.load * self.servers
        if self.arrivals == "G":
            return rng.gamma(0.25, 4 / rate, count)
        even = rng.exponential(1.0, count)
        if self.arrivals == "M":
            return even / rate
        stays = rng.exponential(_WAVE, int(count / rate / _WAVE * 2) + 100)
        rates = rate * np.where(np.arange(stays.size) % 2, 1 + _SWING, 1 - _SWING)
        asked = np.concatenate([[0.0], np.cumsum(stays * rates)])
        return np.diff(np.interp(np.cumsum(even), asked, np.concatenate([[0.0], np.cumsum(stays)])), prepend=0.0)

    def _service(self, rng: np.random.Generator, count: int) -> np.ndarray:
        if self.services == "D":
            return np.ones(count)
        return rng.exponential(1.0, count) if self.services == "M" else rng.lognormal(-0.5, 1.0, count)


AT_LIMIT = (
    *(Queue("M", "M", 1, load) for load in (0.5, 0.8, 0.9)),
    Queue("M", "M", 4, 0.9),
    *(Queue("M", "M", 16, load) for load in (0.7, 0.8, 0.9, 0.95)),
    Queue("M", "M", 64, 0.9),
    Queue("M", "D", 16, 0.9),
    Queue("M", "L", 16, 0.9),
    Queue("G", "M", 16, 0.8),
    Queue("G", "M", 16, 0.9),
    Queue("W", "M", 16, 0.8),
)
CLEAR = (
    *(Queue("M", "M", 1, load) for load in (0.5, 0.7)),
    *(Queue("M", "M", 4, load) for load in (0.5, 0.7)),
    *(Queue("M", "M", 16, load) for load in (0.5, 0.7)),
    *(Queue("M", "D", 16, load) for load in (0.5, 0.7)),
    *(Queue("G", "M", 16, load) for load in (0.5, 0.7)),
    Queue("M", "L", 16, 0.7),
    Queue("M", "M", 64, 0.7),
)


def verdicts(queue: Queue, kept: float, n: int, runs: int, seed: int) -> Iterator[str]:
    """The verdict on each of `runs` runs of `n` requests on whether 0.9 of them keep a limit that `kept` keep."""
    due, ends = queue.run(np.random.default_rng([seed, n]), runs * (n + _BETWEEN))
    slo = Slo(e2e_latency_s=limit_s(queue, kept), quantile=QUANTILE)
    for begin in range(0, due.size, n + _BETWEEN):
        origin, part = due[begin] - 1e-6, slice(begin, begin + n)
        made = rows(due[part] - origin, ends[part] - origin)
        span = int(made.intended_ns[0]), int(made.intended_ns[-1])
        yield slo_standing(goodput(latency(made, np.arange(n)), slo, made.intended_ns, *span), slo)


@cache
def limit_s(queue: Queue, kept: float, count: int = 2_000_000) -> float:
    """The stay within which `kept` of all requests are: exact for M/M/c, else from one long run."""
    if (queue.arrivals, queue.services) == ("M", "M"):
        return float(brentq(lambda stay: _longer(stay, queue.servers, queue.load) - (1 - kept), 0.0, 1000.0))
    due, ends = queue.run(np.random.default_rng(99), count)
    return float(np.quantile(ends - due, kept))


def _longer(stay: float, servers: int, load: float) -> float:
    """The share of stays longer than `stay` in M/M/c: a service, and with Erlang's C a wait that is exponential too."""
    offered, served = servers * load, servers * (1 - load)
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = offered * blocked / (k + offered * blocked)  # Erlang's B, by its recursion
    waits = blocked / (1 - load * (1 - blocked))
    both = (served * math.exp(-stay) - math.exp(-served * stay)) / (served - 1)
    return (1 - waits) * math.exp(-stay) + waits * both


def main(words: list[str]) -> int:
    """Simulate and print; 400 runs a cell where nothing else is asked for."""
    runs = int(words[0]) if words else 400
    head = " | ".join(f"{n:,} requests" for n in LENGTHS)
    print(f"| at its limit: pass / fail | {head} |\n|---|---|---|---|")
    for queue in AT_LIMIT:
        shares = [_both(list(verdicts(queue, QUANTILE, n, runs, 1))) for n in LENGTHS]
        print(f"| {queue.name} | {' | '.join(shares)} |", flush=True)
    print(f"\n| {CLEARLY:g} of requests within, {QUANTILE:g} asked: pass | {head} |\n|---|---|---|---|")
    for queue in CLEAR:
        shares = [_share(list(verdicts(queue, CLEARLY, n, runs // 2, 2)), "pass") for n in LENGTHS]
        print(f"| {queue.name} | {' | '.join(shares)} |", flush=True)
    return 0


def _both(found: list[str]) -> str:
    return f"{_share(found, 'pass')} / {_share(found, 'fail')}"


def _share(found: list[str], verdict: str) -> str:
    return f"{100 * found.count(verdict) / len(found):.1f} %"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
