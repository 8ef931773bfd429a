"""Whole searches for the highest rate within an SLO, on queues whose limit is known."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from benchmarks.coverage.language_model import MOST_PER_S, SLOTS, decoded
from benchmarks.coverage.truths import served
from twinlens.record.beside import Tried
from twinlens.record.request import Requests
from twinlens.spec.slo import Search, Slo
from twinlens.stats.search.trial import Done, judged, next_value, so_far
from twinlens.stats.serving.goodput import goodput
from twinlens.stats.serving.latency import latency
from twinlens.stats.serving.window import find_window


@dataclass(frozen=True, slots=True)
class Server:
    """M/G/c with services of 1 s ± cv, and the SLO that it meets exactly at `load`."""

    servers: int
    cv: float
    quantile: float
    load: float

    @property
    def name(self) -> str:
        return f"M/G/{self.servers}, cv {self.cv:g}, p{100 * self.quantile:g}, load {self.load:g}"

    @property
    def rate_per_s(self) -> float:
        """The highest rate within the SLO."""
        return self.load * self.servers

    def slo(self, count: int = 300_000) -> Slo:
        """The limit that the stay keeps exactly at that load, from one long run."""
        requests = self.run(np.random.default_rng(99), self.rate_per_s, count)
        stays = (requests.end_ns - requests.intended_ns) / 1e9
        return Slo(e2e_latency_s=float(np.quantile(stays, self.quantile)), quantile=self.quantile)

    def run(self, rng: np.random.Generator, rate: float, n: int) -> Requests:
        return served(rng, rate, n, self.servers, self.cv)


@dataclass(frozen=True, slots=True)
class Decoder:
    """A server of a language model (`language_model.py`), and the limit of TTFT that it meets exactly at `load`."""

    quantile: float
    load: float

    @property
    def name(self) -> str:
        return f"{SLOTS} slots, TTFT p{100 * self.quantile:g}, load {self.load:g}"

    @property
    def rate_per_s(self) -> float:
        """The highest rate within the SLO."""
        return self.load * MOST_PER_S

    def slo(self, count: int = 1_000_000) -> Slo:
        """The limit, from one long run."""
        rows = self.run(np.random.default_rng(99), self.rate_per_s, count)
        waits = (rows.chunk_ns[::2] - rows.intended_ns) / 1e9
        return Slo(ttft_s=float(np.quantile(waits, self.quantile)), quantile=self.quantile)

    def run(self, rng: np.random.Generator, rate: float, n: int) -> Requests:
        return decoded(rng, n, rate / MOST_PER_S, burn=1500)


def search(rng: np.random.Generator, server: Server | Decoder, slo: Slo, requests: int, further: int = 0) -> Done:
    """One search whose runs hold `requests` requests each at the true rate, so as many seconds at any. `further`: so
    many times it goes on, where its runs are spent, with as many more as it says that it needs."""
    truth = server.rate_per_s
    duration_s = requests / truth
    rule = Search(start=float(f"{truth * rng.uniform(0.25, 0.9):.3g}"), width=0.2, most_points=12)
    tried: list[Tried] = []
    while not isinstance(ask := next_value(tried, rule, slo), Done):
        summary = _summary(rng, server, slo, ask, round(ask * duration_s))
        earlier = [one for one in tried if one.value == ask]
        verdict, why, shares = judged(cast(Any, summary), slo, rule, earlier)
        tried.append(Tried("", ask, verdict, summary.verdict.label, why, 0.0, shares, summary.requests))
        done = so_far(tried, rule, slo)
        if len(tried) == rule.most_points and done.more and further:
            further -= 1
            rule = rule.model_copy(update={"most_points": len(tried) + done.more[0]})
    return ask


def _summary(rng: np.random.Generator, server: Server | Decoder, slo: Slo, rate: float, n: int) -> SimpleNamespace:
    requests = server.run(rng, rate, max(n, 2))
    window = find_window(requests, "open")
    assert window is not None
    intended = requests.intended_ns[window.rows]
    metrics = goodput(latency(requests, window.rows), slo, intended, window.begin_ns, window.end_ns)
    verdict = SimpleNamespace(label=window.label, reason=window.reason)
    return SimpleNamespace(verdict=verdict, metrics=metrics, requests=window.rows.size)
