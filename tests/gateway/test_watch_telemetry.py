"""OpenTelemetry: a receiver gets protobuf with the conventions' names, and never a word of a prompt."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.gateway.test_watch_records import FRONT, MS, answered

from twinlens.errors import BadInput
from twinlens.gateway.outcome import Outcome
from twinlens.gateway.settings import GatewaySettings
from twinlens.gateway.watch.telemetry import CONVENTIONS, Telemetry
from twinlens.gateway.watch.watching import Watching


@contextmanager
def receiver(got: list[tuple[str, bytes]]) -> Iterator[str]:
    class Takes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Takes)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_receiver_gets_spans_and_histograms_by_the_conventions() -> None:
    got: list[tuple[str, bytes]] = []
    with receiver(got) as url:
        telemetry = Telemetry(url, every_s=60.0)
        telemetry.add(answered(1000 * MS))
        telemetry.add(Outcome("r-2", "team", 0, end_ns=MS, ending="refused", status=429, model="x"))
        telemetry.close()
    traces = ExportTraceServiceRequest.FromString(b"".join(body for path, body in got if path == "/v1/traces"))
    resource = {each.key: each.value.string_value for each in traces.resource_spans[0].resource.attributes}
    assert resource["twinlens.genai_conventions"] == CONVENTIONS
    spans = {each.name: each for each in traces.resource_spans[0].scope_spans[0].spans}
    assert set(spans) == {"chat m", "chat x"}
    answer = {each.key: each.value for each in spans["chat m"].attributes}
    assert answer["gen_ai.usage.output_tokens"].int_value == 6
    assert answer["gen_ai.operation.name"].string_value == "chat"
    assert spans["chat m"].end_time_unix_nano - spans["chat m"].start_time_unix_nano == 60 * MS
    assert [each.name for each in spans["chat m"].events] == ["gen_ai.attempt.failed"]
    assert {each.key: each.value for each in spans["chat x"].attributes}["error.type"].string_value == "429"
    metrics = ExportMetricsServiceRequest.FromString(b"".join(body for path, body in got if path == "/v1/metrics"))
    sent = {each.name: each.histogram for each in metrics.resource_metrics[0].scope_metrics[0].metrics}
    assert set(sent) == {
        "gen_ai.client.operation.duration", "gen_ai.client.token.usage", "gen_ai.server.time_to_first_token",
        "gen_ai.server.time_per_output_token", "gen_ai.client.operation.time_to_first_chunk",
    }  # fmt: skip
    assert sent["gen_ai.server.time_to_first_token"].data_points[0].sum == pytest.approx(0.02)
    assert not any(b"a secret" in body for _, body in got)
    labels = {each.key for point in sent["gen_ai.client.operation.duration"].data_points for each in point.attributes}
    assert "gen_ai.request.model" not in labels


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="is no address"):
        Telemetry("localhost:4318")


def test_one_watcher_has_rows_counters_and_spans(tmp_path: Path) -> None:
    got: list[tuple[str, bytes]] = []
    with receiver(got) as url:
        backend = {"name": "a", "url": "http://127.0.0.1:1/v1"}
        settings = GatewaySettings.model_validate({"backend": (backend,), "telemetry_url": f"{url}/v1/"})
        watching = Watching(tmp_path, FRONT, settings)
        watching.add(answered(time.monotonic_ns()))
        watching.close()
    assert {path for path, _ in got} == {"/v1/traces", "/v1/metrics"}
    assert len(list(tmp_path.glob("*/requests.arrows"))) == 1
    (ttft,) = [each for each in watching.times.collect() if "first_token" in each.name]
    assert {each.labels["backend"] for each in ttft.samples} == {"b"}
