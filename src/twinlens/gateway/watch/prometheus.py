"""The page for Prometheus: counts and times of one process, under labels that the gateway's file bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from twinlens.gateway.outcome import Outcome
from twinlens.gateway.routing.state import State
from twinlens.gateway.watch.tally import Tally

NAME = "twinlens_gateway_"
_TTFT_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_TPOT_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0)
_S = 1e9


class Times:
    """Times of the answers of this process, by the backend that gave them; observed in the thread of the rows."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def times(name: str, says: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(NAME + name, says, ("backend",), buckets=buckets, registry=registry)

        self._ttft = times("time_to_first_token_seconds", "From a request's head to its first content.", _TTFT_S)
        self._tpot = times("time_per_output_token_seconds", "Mean of an answer after its first token.", _TPOT_S)
        self._gap = times("longest_gap_seconds", "The longest time between two reads of an answer.", _TTFT_S)

    def add(self, outcome: Outcome) -> None:
        """One request is over."""
        times_ns, last = outcome.chunk_ns, outcome.last
        if not times_ns or last is None:
            return
        self._ttft.labels(last.backend).observe((times_ns[0] - outcome.intended_ns) / _S)
        if len(times_ns) < 2:
            return
        if (tpot_s := tpot_s_of(outcome)) is not None:
            self._tpot.labels(last.backend).observe(tpot_s)
        self._gap.labels(last.backend).observe(max(map(int.__sub__, times_ns[1:], times_ns)) / _S)


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
    counts = CollectorRegistry()
    counts.register(now)
    return generate_latest(counts) + generate_latest(times.registry)


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
