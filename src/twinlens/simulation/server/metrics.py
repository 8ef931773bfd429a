"""The metrics page of a simulated server, under vLLM's names; the label `simulated` says that none is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_LABELS = ("model_name", "simulated")
_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_COUNTERS = {
    "prompt_tokens": "Prompt tokens computed.",
    "generation_tokens": "Tokens generated.",
    "num_preemptions": "Preemptions.",
    "prefix_cache_queries": "Prompt tokens looked up in the prefix cache.",
    "prefix_cache_hits": "Prompt tokens found in the prefix cache.",
}
_TIMES = {
    "time_to_first_token_seconds": "From arrival to the first token.",
    "inter_token_latency_seconds": "Between tokens.",
    "e2e_request_latency_seconds": "From arrival to the last token.",
    "request_queue_time_seconds": "From arrival to the first step.",
    "request_prefill_time_seconds": "From the first step to the first token.",
    "request_decode_time_seconds": "From the first token to the last.",
}


@dataclass(frozen=True, slots=True)
class State:
    """One engine now: requests running and waiting, the share of its KV blocks that are used, preemptions so far."""

    running: int
    waiting: int
    kv_use: float
    preemptions: int = 0


class Metrics:
    """Counts of one server. Seconds are those of the client's clock."""

    def __init__(self, model: str, speed: float) -> None:
        self._registry = CollectorRegistry()
        said = {"model_name": model, "simulated": f"speed {speed:g}"}
        self._said = tuple(said.values())
        self._counters = {name: self._of(Counter, name, text) for name, text in _COUNTERS.items()}
        self._times = {name: self._of(Histogram, name, text, buckets=_SECONDS) for name, text in _TIMES.items()}
        self._ended = Counter(
            "vllm:request_success", "Requests ended.", (*_LABELS, "finished_reason"), registry=self._registry
        )
        self._gauges = {
            name: Gauge(f"vllm:{name}", text, (*_LABELS, "engine"), registry=self._registry)
            for name, text in (
                ("num_requests_running", "Requests running."),
                ("num_requests_waiting", "Requests waiting."),
                ("kv_cache_usage_perc", "Share of KV blocks used; 1 is all."),
            )
        }
        self._lag = Histogram(
            "twinlens_write_lag_seconds", "Tokens written later than due.", _LABELS, buckets=_SECONDS,
            registry=self._registry,
        ).labels(*self._said)  # fmt: skip
        self._preempted = 0

    def count(self, name: str, amount: float) -> None:
        self._counters[name].inc(amount)

    def time(self, name: str, seconds: float) -> None:
        self._times[name].observe(max(0.0, seconds))

    def lag(self, seconds: float) -> None:
        """A write was so late."""
        self._lag.observe(seconds)

    def ended(self, reason: str) -> None:
        self._ended.labels(*self._said, reason).inc()

    def page(self, engines: list[State]) -> bytes:
        """The page as Prometheus reads it."""
        for i, each in enumerate(engines):
            for name, value in zip(self._gauges, (each.running, each.waiting, each.kv_use), strict=True):
                self._gauges[name].labels(*self._said, str(i)).set(value)
        preempted = sum(each.preemptions for each in engines)
        self.count("num_preemptions", preempted - self._preempted)
        self._preempted = preempted
        return generate_latest(self._registry)

    def _of(self, kind: Any, name: str, text: str, **options: Any) -> Any:
        return kind(f"vllm:{name}", text, _LABELS, registry=self._registry, **options).labels(*self._said)
