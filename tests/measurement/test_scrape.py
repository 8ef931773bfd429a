"""Reading a server's metrics while something runs: real sockets, real threads, rows on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from metrics_server import counting, pages

from material import inference, measured, run_json, spec_of
from twinlens.measurement.server import page, scrape
from twinlens.measurement.server.page import ServerPage
from twinlens.measurement.server.scrape import Scraper, scraping
from twinlens.network.null_server import null_server
from twinlens.network.target import Target
from twinlens.record.codec import encode
from twinlens.record.samples import SERVER_SCHEMA, ServerSample
from twinlens.record.store import create_run, read_run
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.run.points import runs_document
from twinlens.reporting.text.fitted import plain
from twinlens.spec.study import RunSpec
from twinlens.stats.run_summary import summarise


@pytest.fixture(autouse=True)
def _in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "LEAST_PERIOD_S", 0.01)


def spec(period_s: float = 0.01) -> RunSpec:
    return spec_of(inference("fake", protocol={"telemetry_s": period_s}))


class Client:
    """What a client over a network shows of itself."""

    def __init__(self, origin: str, begun: bool = True, **more: Any) -> None:
        self._target = Target(url=f"{origin}/v1", **more)
        self.origin_ns = time.monotonic_ns() if begun else None

    def endpoint(self) -> SimpleNamespace:
        return SimpleNamespace(target=self._target)


def wait_for(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until_s, "it never came"
        time.sleep(0.002)


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())["server_metrics"]


def test_rows_are_read_before_during_and_after_on_the_clock_of_the_run(tmp_path: Path) -> None:
    folder = create_run(tmp_path, spec())
    with pages({"/metrics": counting()}) as server:
        client = Client(server.origin, begun=False)
        with scraping(client, spec(), folder):
            client.origin_ns = origin_ns = time.monotonic_ns()
            asked = len(server.asked)
            wait_for(lambda: len(server.asked) > asked + 3)
            end_ns = time.monotonic_ns() - origin_ns
    samples = read_run(folder).server_samples
    times, trips = samples["time_ns"].to_pylist(), samples["round_trip_ns"].to_pylist()
    assert samples.schema == SERVER_SCHEMA
    assert times[0] < 0 < times[1]
    assert times[-1] - trips[-1] // 2 > end_ns
    assert times == sorted(times)
    assert min(trips) > 0
    tokens = samples["generation_tokens"].to_pylist()
    assert tokens == sorted(tokens)
    assert set(samples["running"].to_pylist()) == {2}
    assert samples["preemptions"].null_count == samples["error"].null_count == len(times)
    told = record(folder)
    assert (told["url"], told["reason"], told["failed"]) == (f"{server.origin}/metrics", None, 0)
    assert told["cpu_s"] > 0


@pytest.mark.parametrize(("status", "body"), [(404, b""), (501, b"start it with --metrics"), (401, b"")])
def test_a_server_without_a_page_is_asked_once_and_the_run_goes_on(tmp_path: Path, status: int, body: bytes) -> None:
    folder = create_run(tmp_path, spec())
    with pages({"/metrics": lambda: (status, body)}) as server, scraping(Client(server.origin), spec(), folder):
        pass
    assert record(folder)["reason"] == f"the server has no metrics page ({status})"
    assert len(server.asked) == 1
    assert read_run(folder).server_samples.num_rows == 0


@pytest.mark.parametrize("body", [b"", b"<html>hello</html>", b"go_goroutines 12\n", b"{}", b"[1", b"\xff\xfe"])
def test_a_page_of_something_else_is_no_metrics_page(tmp_path: Path, body: bytes) -> None:
    folder = create_run(tmp_path, spec())
    with pages({"/metrics": lambda: (200, body)}) as server, scraping(Client(server.origin), spec(), folder):
        pass
    assert "metrics page" in record(folder)["reason"]


def test_a_page_may_be_somewhere_else_and_gets_no_key_that_is_not_its_own(tmp_path: Path) -> None:
    folder = create_run(tmp_path, spec())
    with pages({"/custom": counting()}) as there, pages({"/metrics": counting()}) as here:
        far = Client(here.origin, metrics_url=f"{there.origin}/custom", api_key="secret")
        with scraping(far, spec(), folder):
            wait_for(lambda: len(there.asked) > 1)
        near = Client(here.origin, api_key="secret")
        with scraping(near, spec(), folder):
            pass
    assert not any("authorization" in headers for _, headers in there.asked)
    assert {headers["authorization"] for _, headers in here.asked} == {"Bearer secret"}
    assert "secret" not in (folder / "run.json").read_text()


def test_a_page_that_has_moved_is_followed_once(tmp_path: Path) -> None:
    folder = create_run(tmp_path, spec())
    moved = pages({"/metrics/": counting()}, redirects={"/metrics": "/metrics/"})
    with moved as server, scraping(Client(server.origin), spec(), folder):
        wait_for(lambda: len(server.asked) > 3)
    assert [path for path, _ in server.asked].count("/metrics") == 1
    assert record(folder)["failed"] == 0


def test_a_server_that_goes_away_leaves_rows_with_the_reason(tmp_path: Path) -> None:
    folder = create_run(tmp_path, spec())
    with pages({"/metrics": counting()}) as server:
        client = Client(server.origin)
        with scraping(client, spec(), folder):
            wait_for(lambda: len(server.asked) > 2)
            server.by_path["/metrics"] = lambda: (503, b"loading")
            before = len(server.asked)
            wait_for(lambda: len(server.asked) > before + 2)
    errors = read_run(folder).server_samples["error"].to_pylist()
    assert errors[0] is None
    assert errors[-1] == "the server has no metrics page (503)"
    assert record(folder)["failed"] == sum(error is not None for error in errors) > 1


def test_a_page_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page, "_PATIENCE_S", 0.05)

    def hanging() -> tuple[int, bytes]:
        time.sleep(0.3)
        return 200, b""

    folder = create_run(tmp_path, spec())
    with pages({"/metrics": hanging}) as server, scraping(Client(server.origin), spec(), folder):
        pass
    assert record(folder)["reason"] == "the metrics page does not answer (timed out)"


def test_a_page_that_is_too_long_is_not_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_MOST_BYTES", 100)
    with pages({"/metrics": lambda: (200, b"x" * 101)}) as server:
        server_page = ServerPage(Target(url=f"{server.origin}/v1"))
        with pytest.raises(page.NoPage, match="longer than 100 bytes"):
            server_page.fetch()


def test_both_pages_of_tensorrt_llm_make_one_row(tmp_path: Path) -> None:
    folder = create_run(tmp_path, spec())
    steps = b'[{"iter": 4, "numActiveRequests": 3, "inflightBatchingStats": {"numCtxTokens": 9, "numGenRequests": 2}}]'
    beside = b'trtllm_generation_tokens_total{engine_type="trtllm"} 77\n'
    both = {"/metrics": lambda: (200, steps), "/prometheus/metrics": lambda: (200, beside)}
    with pages(both) as server, scraping(Client(server.origin), spec(), folder):
        pass
    first = read_run(folder).server_samples.to_pylist()[0]
    assert (first["running"], first["iterations"], first["iteration_tokens"], first["generation_tokens"]) == (
        3,
        5,
        11,
        77,
    )


def test_tensorrt_llm_without_its_prometheus_page_is_not_asked_for_it_again(tmp_path: Path) -> None:
    folder = create_run(tmp_path, spec())
    with pages({"/metrics": lambda: (200, b"[]")}) as server, scraping(Client(server.origin), spec(), folder):
        wait_for(lambda: len(server.asked) > 4)
    assert [path for path, _ in server.asked].count("/prometheus/metrics") == 1


def test_reading_can_be_switched_off_and_engines_in_this_process_have_no_page(tmp_path: Path) -> None:
    folder = create_run(tmp_path, spec())
    with scraping(None, spec(), folder):
        pass
    assert "server_metrics" not in json.loads((folder / "run.json").read_text())
    with scraping(Client("http://127.0.0.1:9", metrics_url="off"), spec(), folder):
        pass
    assert record(folder)["reason"] == 'executor.options.metrics_url is "off"'
    assert not (folder / "server.arrows").exists()


def test_a_sink_that_fails_ends_the_reading_and_not_the_run() -> None:
    def full(_: ServerSample) -> None:
        raise OSError("no space left")

    with pages({"/metrics": counting()}) as server:
        scraper = Scraper(ServerPage(Target(url=f"{server.origin}/v1")), full, 0.01, lambda: 0)
        with scraper:
            wait_for(lambda: scraper.error is not None)
            asked = len(server.asked)
            time.sleep(0.05)
            assert len(server.asked) == asked
    assert encode(scraper)["reason"] == "OSError: no space left"


def test_an_exception_in_the_run_ends_the_reading_too(tmp_path: Path) -> None:
    folder = create_run(tmp_path, spec())
    with pages({"/metrics": counting()}) as server:
        with pytest.raises(KeyboardInterrupt), scraping(Client(server.origin), spec(), folder):
            raise KeyboardInterrupt
        asked = len(server.asked)
        time.sleep(0.05)
        assert len(server.asked) == asked == 2
    assert read_run(folder).server_samples.num_rows == 2


def test_a_measured_run_has_its_servers_figures_and_says_that_they_are_of_another_server(tmp_path: Path) -> None:
    with (
        null_server(ttft_s=0.005, itl_s=0.001, life_s=60.0) as server,
        pages({"/metrics": counting(1000)}) as elsewhere,
    ):
        asked = inference(
            "openai-http",
            options={"url": server.url, "metrics_url": f"{elsewhere.origin}/metrics"},
            arrival={"kind": "poisson"},
            fidelity_prompts=0,
            point={"rate_per_s": 40.0},
            protocol={"duration_s": 1.0, "telemetry_s": 0.05},
        )
        run = measured(tmp_path, asked)
    times = run.server_samples["time_ns"].to_numpy()
    assert times[0] < run.requests.sent_ns.min()
    assert times[-1] > run.requests.end_ns.max()
    summary = summarise(run)
    assert summary.metrics["server_running_mean"].value == 2.0
    assert summary.metrics["server_requests_agreement"].reason == "the server does not say it"
    counted = 1000 * (len(times) - 1)  # far from the client's two hundred, however many readings there were
    told = [finding for finding in summary.findings if finding.code == "counts-disagree"]
    assert len(told) == 1
    assert told[0].numbers["server"] == counted
    assert "batching efficiency" in plain(screen(runs_document([(run, summary)]), whole=True))


def test_a_measured_run_on_a_server_without_a_page_says_so_and_is_whole(tmp_path: Path) -> None:
    with null_server(ttft_s=0.005, itl_s=0.001, life_s=60.0) as server:
        asked = inference(
            "openai-http",
            options={"url": server.url},
            arrival={"kind": "constant"},
            fidelity_prompts=0,
            point={"rate_per_s": 40.0},
            protocol={"duration_s": 0.5},
        )
        run = measured(tmp_path, asked)
    assert run.is_finished
    reason = run_json(run)["server_metrics"]["reason"]
    assert "metrics page" in reason
    summary = summarise(run)
    assert summary.metrics["server_running_mean"].reason == reason
    assert "server-metrics-not-read" in {finding.code for finding in summary.findings}
