"""Whole searches for the highest rate within an SLO, on queues whose limit is known."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from benchmarks.coverage.truths import served
from twinlens.record.search import Tried
from twinlens.spec.search import Search
from twinlens.spec.slo import Slo
from twinlens.stats.search.next_rate import Done
from twinlens.stats.search.trial import judged, next_value
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

    def limit_s(self, count: int = 300_000) -> float:
        """The quantile of the stay at that load, from one long run."""
        requests = served(np.random.default_rng(99), self.load * self.servers, count, self.servers, self.cv)
        return float(np.quantile((requests.end_ns - requests.intended_ns) / 1e9, self.quantile))


def search(rng: np.random.Generator, server: Server, limit_s: float, requests: int) -> Done:
    """One search whose runs hold `requests` requests each at the true rate, so as many seconds at any."""
    truth = server.load * server.servers
    duration_s = requests / truth
    rule = Search(start=float(f"{truth * rng.uniform(0.25, 0.9):.3g}"), width=0.1, most_points=16)
    slo = Slo(e2e_latency_s=limit_s, quantile=server.quantile)
    tried: list[Tried] = []
    while not isinstance(ask := next_value(tried, rule), Done):
        summary = _summary(rng, server, slo, ask, round(ask * duration_s))
        earlier = [one for one in tried if one.value == ask]
        verdict, why, shares = judged(cast(Any, summary), slo, rule, earlier)
        tried.append(Tried("", ask, verdict, summary.verdict.label, why, 0.0, shares))
    return ask


def _summary(rng: np.random.Generator, server: Server, slo: Slo, rate: float, n: int) -> SimpleNamespace:
    requests = served(rng, rate, max(n, 2), server.servers, server.cv)
    window = find_window(requests, "open")
    assert window is not None
    times = latency(requests, window.rows)
    metrics = goodput(times, slo, requests.intended_ns[window.rows], window.begin_ns, window.end_ns)
    return SimpleNamespace(verdict=SimpleNamespace(label=window.label, reason=window.reason), metrics=metrics)
