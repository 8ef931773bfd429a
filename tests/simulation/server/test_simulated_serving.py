"""A simulated server beside the clock: its clients, their failures, and who may reach it."""

from __future__ import annotations

import http.client
import json
import socket
import time
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from simulated_server import LAW, MESSAGES, ask, get, simulated

from material import inference, measured, quiet, spec_of
from twinlens.errors import BadInput
from twinlens.executors.openai.executor import OpenAIServer
from twinlens.record.request import Request
from twinlens.schedule.open_loop import OpenLoop
from twinlens.schedule.request import ScheduledRequest
from twinlens.simulation.law import one
from twinlens.simulation.points.run_folder import NOT_MODELLED
from twinlens.simulation.rules import Rules
from twinlens.simulation.server.app import _REAL
from twinlens.simulation.server.entry import Settings, serve_openai, serving
from twinlens.stats.run_summary import summarise


def rows_of(url: str, count: int, tokens: int = 6, **options: object) -> list[Request]:
    """All at once, through our own client, one row for each."""
    rows: list[Request] = []
    server = OpenAIServer()
    try:
        server.open(spec_of(inference("openai-http", options={"url": url, "timeout_s": 20.0} | options)), quiet)
        asked = [ScheduledRequest(i, i, 0, 5, tokens, (3, 0, i)) for i in range(count)]
        server.network_client.play(OpenLoop(asked), rows.append)
    finally:
        server.close()
    return sorted(rows, key=lambda row: row.group)


def test_our_own_client_finds_each_token_and_those_of_one_step_together() -> None:
    with simulated(one(0.05), Rules(max_num_seqs=8)) as url:
        rows = rows_of(url, 8)
    assert {(row.outcome, row.output_tokens, row.chunk_tokens) for row in rows} == {("ok", 6, (1,) * 6)}
    first = min(rows, key=lambda row: row.chunk_ns[0])
    for row in rows:
        ahead = [sum(at <= own for at in first.chunk_ns) - i for i, own in enumerate(row.chunk_ns)]
        known = ahead[: 6 - max(ahead)]
        assert max(known) - min(known) <= 1, "who decode together get a token each with every step"


def test_a_request_waits_for_a_place() -> None:
    with simulated(one(0.01), Rules(max_num_seqs=1)) as url:
        rows = sorted(rows_of(url, 3), key=lambda row: row.chunk_ns[0])
    assert all(a.chunk_ns[-1] < b.chunk_ns[0] for a, b in pairwise(rows))


def test_each_failure_is_a_row_and_the_same_seed_fails_the_same_requests() -> None:
    outcomes = []
    for seed in (5, 5, 6):
        with simulated(fail="429=0.25,500=0.2,cut=0.25", seed=seed) as url:
            rows = rows_of(url, 40, probe=False)
        assert len(rows) == 40
        outcomes.append(sorted((row.outcome, row.status) for row in rows))
    assert outcomes[0] == outcomes[1] != outcomes[2]
    assert {("ok", 200), ("refused", 429), ("failed", 500)} < set(outcomes[0])
    assert {outcome for outcome, _ in outcomes[0]} <= {"ok", "refused", "failed"}


def test_a_refusal_says_when_to_come_again_and_a_cut_answer_ends_without_its_end() -> None:
    with simulated(fail="429=1:7") as url:
        reply = ask(url, messages=MESSAGES)
        assert (reply.status, reply.headers["retry-after"]) == (429, "7")
        assert reply.data["error"]["type"] == "RateLimitError"
    with simulated(fail="cut=1") as url:
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            ask(url, messages=MESSAGES, max_tokens=9, stream=True)
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            ask(url, messages=MESSAGES, max_tokens=9)


def test_a_stalled_answer_comes_later_than_a_whole_one_takes() -> None:
    with simulated(fail="stall=1:0.4") as url:
        begin_s = time.monotonic()
        ask(url, messages=MESSAGES, max_tokens=3)
        assert time.monotonic() - begin_s > 0.4


def test_a_client_that_leaves_frees_its_place_streamed_and_not() -> None:
    with simulated(one(0.001), Rules(max_num_seqs=1)) as url:
        for streams in (True, False):
            parts = urlsplit(url)
            body = json.dumps({"messages": MESSAGES, "max_tokens": 10**5, "stream": streams})
            leaving = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
            leaving.request("POST", "/v1/chat/completions", body)
            while b'num_requests_running{engine="0",model_name="simulated",simulated="speed 1"} 1.0' not in (
                get(url.removesuffix("/v1") + "/metrics").body
            ):
                pass
            if streams:
                leaving.getresponse().read(200)
            leaving.close()
            assert ask(url, messages=MESSAGES, max_tokens=2).status == 200, "a place was free"
        page = get(url.removesuffix("/v1") + "/metrics").body.decode()
        assert 'finished_reason="abort",model_name="simulated",simulated="speed 1"} 2.0' in page


def test_a_faster_clock_answers_sooner() -> None:
    took = []
    for speed in (1.0, 50.0):
        with simulated(one(0.05), speed=speed) as url:
            begin_s = time.monotonic()
            assert ask(url, messages=MESSAGES, max_tokens=10).headers["x-twinlens-simulated"].endswith(f"{speed:g}")
            took.append(time.monotonic() - begin_s)
    assert took[0] > 0.5
    assert took[1] < took[0]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.com", ""])
def test_it_is_reached_from_this_machine_alone(host: str) -> None:
    with pytest.raises(BadInput, match="does not listen on"), serving(LAW, Rules(), Settings(host=host, port=0)):
        pass


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (Settings(speed=0), "--speed"),
        (Settings(speed=float("nan")), "--speed"),
        (Settings(replicas=0), "at least one replica"),
        (Settings(answer_tokens=0.5), "at least 1 token"),
        (Settings(port=70000), "--port"),
        (Settings(fail="cut=2"), "from 0 to 1"),
        (Settings(tokenizer="/nowhere"), "tokenizer.json"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_sentence(settings: Settings, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        serve_openai(LAW, Rules(), settings)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=f"port {port} of 127.0.0.1 cannot be had"):
            serve_openai(LAW, Rules(), Settings(port=port))


def test_a_run_measured_of_it_is_a_simulated_one(tmp_path: Path) -> None:
    with simulated(one(0.004), Rules(max_num_seqs=16), model="a-70b") as url:
        run = measured(
            tmp_path,
            inference(
                "openai-http",
                options={"url": url},
                arrival={"kind": "constant"},
                point={"precision": "fp32", "rate_per_s": 40},
            ),
        )
    assert run.place == "simulated"
    known = run.sections.simulated
    assert known is not None
    assert (known.origin, known.rules) == ("quoted", {"max_num_seqs": 16})
    assert known.law["speed"] == 1.0
    summary = summarise(run)
    assert summary.is_simulated
    assert {each.origin for each in summary.metrics.values()} == {"simulated"}
    record = run.facts.executor if run.facts else None
    assert record is not None
    assert record.value("software.runtime.name") == "twinlens-simulated"
    assert record.value("serving.max_sequences") == 16


def test_what_is_real_about_it_is_a_part_of_what_a_simulation_lacks() -> None:
    assert set(_REAL) < set(NOT_MODELLED)
