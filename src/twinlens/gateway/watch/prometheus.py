"""The page for Prometheus: counts and times of one process, under labels that the gateway's file bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from operator import sub
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from twinlens.gateway.outcome import Outcome
from twinlens.gateway.routing.state import State
from twinlens.gateway.watch.tally import Tally

NAME = "twinlens_gateway_"
_TTFT_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_TPOT_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0)
_S = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class _Times:
    """One quantity by backend: how many values fell between two bounds, the last beyond all, and their sum."""

    name: str
    says: str
    bounds: tuple[float, ...]
    counts: dict[str, list[int]] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)

    def observe(self, backend: str, value: float) -> None:
        counts = self.counts.get(backend)
        if counts is None:
            counts = self.counts.setdefault(backend, [0] * (len(self.bounds) + 1))
        counts[bisect_left(self.bounds, value)] += 1
        self.sums[backend] = self.sums.get(backend, 0.0) + value

    def family(self) -> HistogramMetricFamily:
        family = HistogramMetricFamily(NAME + self.name, self.says, labels=("backend",))
        for backend, counts in list(self.counts.items()):
            bounds = [*map(floatToGoString, self.bounds), "+Inf"]
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            family.add_metric((backend,), buckets, self.sums.get(backend, 0.0))
        return family


class Times(Collector):
    """Times of the answers of this process, by the backend that gave them; observed in the thread of the rows, without
    the locks of the library's own histograms, which took longer than all else there."""

    def __init__(self) -> None:
        self._ttft = _Times("time_to_first_token_seconds", "From a request's head to its first content.", _TTFT_S)
        self._tpot = _Times("time_per_output_token_seconds", "Mean of an answer after its first token.", _TPOT_S)
        self._gap = _Times("longest_gap_seconds", "The longest time between two reads of an answer.", _TTFT_S)

    def add(self, outcome: Outcome) -> None:
        """One request is over."""
        times_ns, last = outcome.chunk_ns, outcome.last
        if not times_ns or last is None:
            return
        self._ttft.observe(last.backend, (times_ns[0] - outcome.intended_ns) / _S)
        if len(times_ns) < 2:
            return
        if (tpot_s := tpot_s_of(outcome)) is not None:
            self._tpot.observe(last.backend, tpot_s)
        self._gap.observe(last.backend, max(map(sub, times_ns[1:], times_ns)) / _S)

    def collect(self) -> Iterator[Metric]:
        for each in (self._ttft, self._tpot, self._gap):
            yield each.family()


@dataclass(frozen=True, slots=True, eq=False)
class Now(Collector):
    """What the page says beside times: the tally, and what stands at this moment."""

    tally: Tally
    states: Mapping[str, State]
    waiting: int
    rows_lost: int

    def collect(self) -> Iterator[Metric]:
        of, hedged = self.tally, {name: n for (name, kind), n in self.tally.failed.items() if kind == "hedged"}
        held = {
            (name, word): count
            for name, state in self.states.items()
            for word, count in (("yes", state.ttft.held), ("no", state.ttft.tried - state.ttft.held))
        }
        yield _counter("requests", "Requests that are over.", ("backend", "key", "ending"), of.requests)
        yield _counter("refusals", "Requests that no backend was asked for.", ("key", "status"), of.refusals)
        yield _counter("tokens", "Tokens as backends counted them.", ("backend", "key", "kind"), of.tokens)
        yield _counter("uncounted", "Answers whose tokens no backend counted.", ("backend",), of.uncounted)
        yield _counter("retries", "Attempts that failed and were followed by another.", ("backend", "failure"),
                       of.retries)  # fmt: skip
        yield _counter("hedges", "Attempts that another one was faster than.", ("backend",), hedged)
        yield _counter("predictions", "First tokens that were predicted.", ("backend", "held"), held)
        yield _counter("money", "What requests cost, in the currency of the prices.", ("backend", "key"), of.money)
        yield _counter("unpriced", "Requests whose cost is not known.", ("backend",), of.unpriced)
        in_flight = GaugeMetricFamily(f"{NAME}in_flight", "Requests now.", labels=("backend",))
        for name, state in self.states.items():
            in_flight.add_metric((name,), state.load.in_flight)
        yield in_flight
        yield GaugeMetricFamily(f"{NAME}waiting", "Requests in the queue now.", self.waiting)
        yield GaugeMetricFamily(f"{NAME}rows_lost", "Rows that could not be written.", self.rows_lost)


def page(times: Times, now: Now) -> bytes:
    """The page as it stands now."""
    registry = CollectorRegistry()
    registry.register(now)
    registry.register(times)
    return generate_latest(registry)


def _counter(name: str, says: str, labels: Iterable[str], counts: Mapping[Any, Any]) -> CounterMetricFamily:
    family = CounterMetricFamily(NAME + name, says, labels=tuple(labels))
    for names, count in counts.items():
        family.add_metric(names if isinstance(names, tuple) else (names,), float(count))
    return family


def tpot_s_of(outcome: Outcome) -> float | None:
    """Seconds a token after the first read, by the tokens that came after it; None where none did."""
    if len(outcome.chunk_ns) < 2:
        return None
    made = sum(outcome.chunk_tokens) if outcome.output_tokens is None else outcome.output_tokens
    later = made - outcome.chunk_tokens[0]
    return (outcome.chunk_ns[-1] - outcome.chunk_ns[0]) / _S / later if later > 0 else None
