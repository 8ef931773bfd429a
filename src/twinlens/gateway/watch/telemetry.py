"""Spans and metrics for OpenTelemetry, under the names of its GenAI conventions. No text of a prompt or an answer.

The conventions are in development, so their version is pinned here and named in the resource:
github.com/open-telemetry/semantic-conventions, 1.44.0.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from twinlens.errors import BadInput
from twinlens.gateway.outcome import Outcome
from twinlens.gateway.watch.prometheus import tpot_s_of
from twinlens.version import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram

CODE = "TL283"
CONVENTIONS = "1.44.0"
SCHEMA_URL = f"https://opentelemetry.io/schemas/{CONVENTIONS}"
_OPERATIONS = {"chat": "chat", "completions": "text_completion", "embeddings": "embeddings"}
_PROVIDER = "twinlens.gateway"
_SCOPE = "twinlens.gateway"
_S = 1e9
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKEN_SECONDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)


class Telemetry:
    """Sends a span a request, and histograms, to `url` (OTLP over HTTP, as far as /v1) from threads of the SDK's own.

    Raises BadInput (TL283) where the extra is not installed, or the address is none.
    """

    def __init__(self, url: str, *, every_s: float = 10.0, instance: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput(f"telemetry_url {url[:60]!r} is no address; write http://127.0.0.1:4318", code=CODE)
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            sentence = "telemetry_url needs OpenTelemetry: pip install 'twinlens[telemetry]', or leave it out"
            raise BadInput(sentence, code=CODE) from None
        base = url.rstrip("/").removesuffix("/v1")
        resource = Resource(
            {
                "service.name": "twinlens-gateway", "service.version": __version__, "service.instance.id": instance,
                "twinlens.genai_conventions": CONVENTIONS,
            },
            SCHEMA_URL,
        )  # fmt: skip
        self._traces = TracerProvider(resource=resource, shutdown_on_exit=False)
        spans = BatchSpanProcessor(
            OTLPSpanExporter(f"{base}/v1/traces", timeout=5), schedule_delay_millis=every_s * 1000
        )
        self._traces.add_span_processor(spans)
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(f"{base}/v1/metrics", timeout=5), export_interval_millis=every_s * 1000
        )
        self._metrics = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self._tracer = self._traces.get_tracer(_SCOPE, __version__, schema_url=SCHEMA_URL)
        self._histograms = self._made()

    def add(self, outcome: Outcome) -> None:
        """One request is over: its span, and its times and counts."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        about = attributes_of(outcome)
        behind_ns = time.time_ns() - time.monotonic_ns()
        operation = about["gen_ai.operation.name"]
        span = self._tracer.start_span(
            f"{operation} {outcome.model}".strip(), kind=SpanKind.CLIENT, start_time=outcome.intended_ns + behind_ns,
            attributes=about | _counts_of(outcome),
        )  # fmt: skip
        for each in outcome.attempts:
            if each is outcome.last:
                continue
            told = {"server.address": each.backend, "error.type": each.failure}
            span.add_event("gen_ai.attempt.failed", told, timestamp=(each.end_ns or each.begin_ns) + behind_ns)
        if outcome.ending != "ok":
            span.set_status(Status(StatusCode.ERROR, outcome.ending))
        span.end(max(outcome.end_ns, outcome.intended_ns) + behind_ns)
        self._observe(outcome, {name: each for name, each in about.items() if name not in _OF_SPANS})

    def close(self) -> None:
        """Send what is left, and stop."""
        self._traces.shutdown()
        self._metrics.shutdown(5000)

    def _made(self) -> dict[str, Histogram]:
        meter = self._metrics.get_meter(_SCOPE, __version__, schema_url=SCHEMA_URL)

        def histogram(name: str, unit: str, says: str, bounds: Sequence[float]) -> Histogram:
            return meter.create_histogram(name, unit, says, explicit_bucket_boundaries_advisory=bounds)

        return {
            "duration": histogram("gen_ai.client.operation.duration", "s", "GenAI operation duration.", _SECONDS),
            "tokens": histogram("gen_ai.client.token.usage", "{token}", "Input and output tokens used.", _TOKENS),
            "first": histogram(
                "gen_ai.client.operation.time_to_first_chunk", "s", "Time to a backend's first chunk.", _SECONDS
            ),
            "ttft": histogram("gen_ai.server.time_to_first_token", "s", "Time to first token.", _SECONDS),
            "tpot": histogram("gen_ai.server.time_per_output_token", "s", "Time per token after it.", _TOKEN_SECONDS),
        }

    def _observe(self, outcome: Outcome, about: dict[str, Any]) -> None:
        record = {name: each.record for name, each in self._histograms.items()}
        if (last := outcome.last) is not None and last.first_ns is not None:
            record["first"]((last.first_ns - last.begin_ns) / _S, about)
        record["duration"]((outcome.end_ns - outcome.intended_ns) / _S, about)
        for kind in ("input", "output"):
            if (much := getattr(outcome, f"{kind}_tokens")) is not None:
                record["tokens"](much, about | {"gen_ai.token.type": kind})
        if outcome.chunk_ns:
            record["ttft"]((outcome.chunk_ns[0] - outcome.intended_ns) / _S, about)
        if (tpot_s := tpot_s_of(outcome)) is not None:
            record["tpot"](tpot_s, about)


_OF_SPANS = frozenset({"gen_ai.request.model", "twinlens.route.id", "twinlens.key"})
"""Attributes that a client can write, or that are each request's own: in a metric they would grow without end."""


def attributes_of(outcome: Outcome) -> dict[str, Any]:
    """Attributes of a span by the conventions, without counts."""
    kind = outcome.asked.kind if outcome.asked else "chat"
    about: dict[str, Any] = {
        "gen_ai.operation.name": _OPERATIONS[kind],
        "gen_ai.provider.name": _PROVIDER,
        "gen_ai.request.model": outcome.model,
        "twinlens.route.id": outcome.id,
        "twinlens.key": outcome.key,
    }
    if outcome.last is not None:
        backend = outcome.last.route.backend
        about["server.address"] = outcome.last.backend
        about["gen_ai.response.model"] = backend.model
    if outcome.ending != "ok":
        failure = outcome.last.failure if outcome.last else ""
        about["error.type"] = failure or (str(outcome.status) if outcome.status >= 400 else outcome.ending)
    return about


def _counts_of(outcome: Outcome) -> dict[str, Any]:
    counts = {
        "gen_ai.usage.input_tokens": outcome.input_tokens,
        "gen_ai.usage.output_tokens": outcome.output_tokens,
        "gen_ai.request.max_tokens": outcome.asked.most_tokens if outcome.asked else None,
    }
    return {name: each for name, each in counts.items() if each is not None}
