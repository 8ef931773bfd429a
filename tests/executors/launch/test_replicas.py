"""Replicas behind the balancer: requests spread over them, one that dies named with what it lost, none left behind."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_recipe import RECIPE
from test_launch_process import lives, waited
from test_launch_study import served

import twinlens as tl
from material import measured, quiet, run_json, spec_of
from twinlens.comparison.scaling import scaling_efficiency
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.launch import replicas
from twinlens.executors.launch.options import settings_of
from twinlens.executors.launch.process import Process
from twinlens.executors.launch.ready import free_port, wait_until_ready
from twinlens.executors.launch.recipe import LaunchConfig
from twinlens.executors.launch.replicas import behind_balancer, replicas_of
from twinlens.executors.launch.runtime import vllm
from twinlens.executors.launch.server import LaunchedProcess, LaunchedServer
from twinlens.measurement.server.shared import joined
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, observed
from twinlens.record.store import create_run
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.study import RunSpec

BALANCER = Path(replicas.__file__).with_name("balancer.py")
CLOSED: dict[str, Any] = {"arrival": {"kind": "closed"}, "point": {"concurrency": 4}, "options": {"replicas": 2}}


def port_of(up: LaunchedProcess) -> int:
    return int(up.running.url.rpartition(":")[2].partition("/")[0])


def ask(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    body = json.dumps({"max_tokens": 2, "messages": []})
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.read().rstrip().endswith(b"[DONE]")
    return answer.status


@pytest.fixture
def spec(small_server: Path) -> RunSpec:
    return spec_of(served(small_server, **CLOSED))


@pytest.fixture
def up(spec: RunSpec, tmp_path: Path) -> Iterator[LaunchedProcess]:
    process = LaunchedServer(RECIPE).launch(spec, tmp_path / "log", quiet)
    yield process
    process.stop()


def test_requests_go_to_the_least_busy_replica_and_are_counted(up: LaunchedProcess) -> None:
    before = {one["replica"]: one["requests"] for one in replicas_of(port_of(up))["replicas"]}
    assert [ask(port_of(up)) for _ in range(6)] == [200] * 6
    after = replicas_of(port_of(up))
    assert [one["requests"] - before[one["replica"]] for one in after["replicas"]] == [3, 3]
    assert [one["lost"] for one in after["replicas"]] == [0, 0]
    assert len({one["pid"] for one in after["replicas"]}) == 2
    assert up.is_well()


def test_stopping_ends_the_balancer_and_every_replica(up: LaunchedProcess) -> None:
    pids = [one["pid"] for one in replicas_of(port_of(up))["replicas"]]
    up.stop()
    assert not any(map(lives, [*pids, up.running.pid]))


def test_a_killed_balancer_leaves_no_replica(up: LaunchedProcess) -> None:
    pids = [one["pid"] for one in replicas_of(port_of(up))["replicas"]]
    os.kill(up.running.pid, signal.SIGKILL)
    waited(lambda: not any(map(lives, pids)))


def test_a_replica_that_is_killed_is_named_and_the_other_goes_on(
    up: LaunchedProcess, spec: RunSpec, tmp_path: Path
) -> None:
    folder = create_run(tmp_path / "runs", spec)
    first, second = (one["pid"] for one in replicas_of(port_of(up))["replicas"])
    server = LaunchedServer(RECIPE)

    def measured_while_one_is_killed() -> None:
        with joined(server, folder, spec, quiet, up.running):
            os.kill(first, signal.SIGKILL)
            waited(lambda: not lives(first))
            assert ask(port_of(up)) == 200, "the other one answers"

    with pytest.raises(ExecutorFailed, match=r"replica 0 of 2 ended while .* with 0 requests lost") as caught:
        measured_while_one_is_killed()
    assert caught.value.code == "TL305"
    told = json.loads((folder / "run.json").read_text())["replicas"]["replicas"]
    assert [one["lives"] for one in told] == [False, True]
    assert lives(second)
    assert not up.is_well(), "so that the next run gets a whole one"


def test_a_run_on_two_replicas_records_how_its_requests_were_spread(tmp_path: Path, small_server: Path) -> None:
    run = measured(tmp_path, served(small_server, **CLOSED))
    assert run.is_finished
    told = run_json(run)["replicas"]
    requests = [one["requests"] for one in told["replicas"]]
    assert sum(requests) >= len(run.table)
    assert min(requests) > 0
    assert told["cpu_s"] > 0, "what the balancer itself took"
    assert run.facts is not None
    assert run.facts.executor.value("serving.replicas") == 2
    variables = run.facts.executor.value("software.environment")
    assert variables["OMP_NUM_THREADS"] == "1", "as of one server, so that the two compare"
    assert set(run.table["outcome"].to_pylist()) == {"ok"}


def test_each_replica_has_its_share_of_the_processors_and_a_port_of_its_own(
    small_server: Path,
) -> None:
    asked = spec_of(served(small_server))
    order = LaunchConfig(asked, "python", "/models/small", "small", 8000, 1, 512, cpus=(0, 1, 2, 3))
    made = behind_balancer(vllm.RECIPE, order, {"A": "1"}, ((), ()))
    started = json.loads(made.argv[-1])
    assert made.argv[4:6] == ("8000", "/health")
    assert len({one["port"] for one in started}) == 2
    assert all(str(one["port"]) in one["argv"] for one in started)
    assert {one["env"]["A"] for one in started} == {"1"}
    assert [one["env"]["VLLM_CPU_OMP_THREADS_BIND"] for one in started] == ["0", "1"], "each on a core of its own"


BREAKS = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    client, _ = listener.accept()
    asked = client.recv(65536)
    head = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\nconnection: close\\r\\n\\r\\n"
    client.sendall(head if asked.startswith(b"GET") else head + b'data: {"choices": []}\\n\\n')
    client.close()
"""


def test_an_answer_that_breaks_off_is_counted_as_lost_and_breaks_off_at_the_client_too(tmp_path: Path) -> None:
    port, inner = free_port(), free_port()
    orders = json.dumps([{"port": inner, "argv": [sys.executable, "-c", BREAKS, str(inner)], "env": {}}])
    words = [sys.executable, "-I", "-S", str(BALANCER), str(port), "/health", orders]
    process = Process(words, os.environ, tmp_path / "log")
    try:
        wait_until_ready(process, "it", port, "/health", tmp_path / "log", 20.0, lambda phrase: None)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("POST", "/v1/chat/completions", "{}")
        assert b"[DONE]" not in connection.getresponse().read()
        (told,) = replicas_of(port)["replicas"]
        assert (told["requests"], told["lost"], told["lives"]) == (1, 1, True)
    finally:
        process.stop()


def side(replicas: int, spec: RunSpec, rate: float, boards: tuple[str, ...] = ()) -> Any:
    server = SimpleNamespace(replicas=replicas)
    record = ExecutorRecord({"accelerator.uuid": observed(list(boards), "NVML")} if boards else {})
    run = SimpleNamespace(sections=SimpleNamespace(server=server), facts=Facts(record), spec=spec)
    known = {"output_tokens_per_s": Estimate(rate, "tokens/s", "rows", "measured", low=rate, high=rate, n=9)}
    group = SimpleNamespace(point={"concurrency": 4}, metrics=known)
    return SimpleNamespace(runs=[run], lens="inference", group=group, spec={"workload": {}})


def test_two_replicas_against_one_have_a_scaling_efficiency_with_its_interval(spec: RunSpec) -> None:
    one, two = side(1, spec, 100.0), side(2, spec, 150.0)
    ratio = Estimate(1.5, "1", "of runs", "derived", low=1.4, high=1.6, n=3)
    effect: Any = SimpleNamespace(metric="output_tokens_per_s", ratio=ratio, way="runs")
    found = scaling_efficiency(one, two, [effect])
    assert found is not None
    efficiency = found.evidence["efficiency"]
    assert (efficiency.value, efficiency.low, efficiency.high) == (0.75, 0.7, 0.8)
    assert sentence_of(found).startswith("From 1 to 2 replicas the throughput scales with an efficiency of 75%")
    assert scaling_efficiency(one, side(1, spec, 90.0), [effect]) is None
    shared = scaling_efficiency(one, side(2, spec, 150.0, ("GPU-a",)), [effect])
    assert shared is not None
    assert sentence_of(shared).endswith("they share 1 GPU.")
    apart = scaling_efficiency(one, side(2, spec, 150.0, ("GPU-a", "GPU-b")), [effect])
    assert apart is not None
    assert "share" not in sentence_of(apart)


def test_one_replica_and_two_say_both_how_many_they_are(tmp_path: Path, small_server: Path) -> None:
    one = measured(tmp_path / "one", served(small_server, **CLOSED | {"options": {}}))
    two = measured(tmp_path / "two", served(small_server, **CLOSED))
    (found,) = tl.compare(one, two)
    assert [each.numbers["fields"] for each in found.findings if each.code == "not-said"] == []
    (field,) = (each for each in found.differences if each.field == "serving.replicas")
    assert (field.a, field.b) == ((1,), (2,))


@pytest.mark.parametrize("count", [0, -1, 65, True, "2"])
def test_a_number_of_replicas_that_cannot_be_is_one_sentence(count: object) -> None:
    with pytest.raises(BadInput, match="replicas is 1 to 64"):
        settings_of("vllm", {"replicas": count}, "python")
