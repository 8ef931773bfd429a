"""The page for Prometheus: counts and times of one process, under labels that the gateway's file bounds."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from twinlens.gateway.outcome import Outcome

CONTENT_TYPE = CONTENT_TYPE_LATEST
_TTFT_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_TPOT_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0)
_NONE = ""
_S = 1e9


class Counters:
    """What happened in this process since it began. Labels are names of backends and keys of the gateway's file and
    words of ours, never what a client wrote."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()

        def counter(name: str, says: str, *labels: str) -> Counter:
            return Counter(f"twinlens_gateway_{name}", says, labels, registry=registry)

        def times(name: str, says: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"twinlens_gateway_{name}", says, ("backend",), buckets=buckets, registry=registry)

        self._requests = counter("requests", "Requests that are over.", "backend", "key", "ending")
        self._refusals = counter("refusals", "Requests that no backend was asked for.", "key", "status")
        self._tokens = counter("tokens", "Tokens as backends counted them.", "backend", "key", "kind")
        self._uncounted = counter("uncounted", "Answers whose tokens no backend counted.", "backend")
        self._retries = counter("retries", "Attempts that failed and were followed by another.", "backend", "failure")
        self._hedges = counter("hedges", "Attempts that another one was faster than.", "backend")
        self._predicted = counter("predictions", "First tokens that were predicted.", "backend", "held")
        self._money = counter("money", "What requests cost, in the currency of the prices.", "backend", "key")
        self._unpriced = counter("unpriced", "Requests whose cost is not known.", "backend")
        self._ttft = times("time_to_first_token_seconds", "From a request's head to its first content.", _TTFT_S)
        self._tpot = times("time_per_output_token_seconds", "Mean of an answer after its first token.", _TPOT_S)
        self._gap = times("longest_gap_seconds", "The longest time between two reads of an answer.", _TTFT_S)
        self._in_flight = Gauge("twinlens_gateway_in_flight", "Requests now.", ("backend",), registry=registry)
        self._waiting = Gauge("twinlens_gateway_waiting", "Requests in the queue now.", registry=registry)
        self._lost = Gauge("twinlens_gateway_rows_lost", "Rows that could not be written.", registry=registry)

    def add(self, outcome: Outcome) -> None:
        """One request is over."""
        last = outcome.last
        if last is None:
            self._refusals.labels(outcome.key, str(outcome.status)).inc()
            self._requests.labels(_NONE, outcome.key, outcome.ending).inc()
            return
        name, key = last.backend, outcome.key
        self._requests.labels(name, key, outcome.ending).inc()
        self._count(outcome, name, key)
        self._time(outcome, name)
        for each in outcome.attempts:
            if each.failure == "hedged":
                self._hedges.labels(each.backend).inc()
            elif each.failure and each is not last:
                self._retries.labels(each.backend, each.failure).inc()
            held = prediction_held(outcome, each.route.chosen.ttft_s, each.begin_ns, each.first_ns)
            if held is not None:
                self._predicted.labels(each.backend, "yes" if held else "no").inc()

    def page(self, in_flight: Iterable[tuple[str, int]] = (), waiting: int = 0, rows_lost: int = 0) -> bytes:
        """The page as it stands now. `in_flight`: of each backend."""
        for name, count in in_flight:
            self._in_flight.labels(name).set(count)
        self._waiting.set(waiting)
        self._lost.set(rows_lost)
        return generate_latest(self._registry)

    def _count(self, outcome: Outcome, name: str, key: str) -> None:
        if outcome.output_tokens is None:
            self._uncounted.labels(name).inc()
        for kind in ("input", "output", "cached"):
            if much := getattr(outcome, f"{kind}_tokens"):
                self._tokens.labels(name, key, kind).inc(much)
        if outcome.money is None:
            self._unpriced.labels(name).inc()
        else:
            self._money.labels(name, key).inc(float(outcome.money))

    def _time(self, outcome: Outcome, name: str) -> None:
        times_ns = outcome.chunk_ns
        if not times_ns:
            return
        self._ttft.labels(name).observe((times_ns[0] - outcome.intended_ns) / _S)
        if len(times_ns) < 2:
            return
        tpot_s = tpot_s_of(outcome)
        if tpot_s is not None:
            self._tpot.labels(name).observe(tpot_s)
        self._gap.labels(name).observe(max(map(int.__sub__, times_ns[1:], times_ns)) / _S)


def tpot_s_of(outcome: Outcome) -> float | None:
    """Seconds a token after the first read, by the tokens that came after it; None where none did."""
    if len(outcome.chunk_ns) < 2:
        return None
    made = sum(outcome.chunk_tokens) if outcome.output_tokens is None else outcome.output_tokens
    later = made - outcome.chunk_tokens[0]
    return (outcome.chunk_ns[-1] - outcome.chunk_ns[0]) / _S / later if later > 0 else None


def prediction_held(
    outcome: Outcome, band: tuple[float, float, float] | None, begin_ns: int, first_ns: int | None
) -> bool | None:
    """Whether the first content of an attempt came within what was predicted (middle, low, high); None where nothing
    was, or none came. An answer that is not streamed has no first content to see."""
    if band is None or first_ns is None or outcome.asked is None or not outcome.asked.streams:
        return None
    return band[1] <= (first_ns - begin_ns) / _S <= band[2]
