"""Ceilings beside a server: measured after the load where it runs here, and never where nothing could use them."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from material import inference
from twinlens.measurement.server_ceilings import server_ceilings
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, observed
from twinlens.record.sections import Running
from twinlens.spec.load import parse

pytest.importorskip("torch")
FACTS = Facts(ExecutorRecord({}))


@pytest.fixture
def url() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


def ceilings(url: str, precision: str = "bf16", model: str = "small", **protocol: Any) -> dict[str, Any]:
    data = inference("openai-http", protocol={"duration_s": 20, "ceilings": True} | protocol)
    data["executor"]["options"] = {"url": url}
    data["workload"] |= {"model": model, "arrival": {"kind": "poisson"}}
    data["point"] = {"precision": precision, "rate_per_s": 2}
    (spec, *_) = parse(data, where="here").runs()
    return server_ceilings(spec, FACTS, None)


def test_a_server_on_this_machine_has_its_read_and_matrix_rate_measured_after_the_load(url: str) -> None:
    found = ceilings(url)
    assert set(found) == {"matrix_flop_per_s", "read_bytes_per_s"}
    for estimate in found.values():
        assert estimate.value > 0
        assert estimate.method.endswith("after the load, beside the waiting server")


@pytest.mark.parametrize(
    "given",
    [
        {"url": "http://192.0.2.1:8000/v1"},
        {"precision": "as-served"},
        {"model": "nobody/knows-it"},
        {"ceilings": False},
        {"duration_s": 2, "steady_s": 0},
    ],
)
def test_nothing_is_measured_that_nothing_could_be_held_against(url: str, given: dict[str, Any]) -> None:
    assert ceilings(**({"url": url} | given)) == {}


def test_a_machine_without_an_engine_has_no_ceilings_and_a_reason(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlens.measurement.server_ceilings.executor_names", lambda: ())
    (absent,) = ceilings(url).values()
    assert "no engine is installed that measures it" in absent.reason


FOUR = "GPU-a,GPU-b,GPU-c,GPU-d"
READ = Estimate(3e12, "byte/s", "read", "measured", 2.9e12, 3.1e12, n=9)


@pytest.mark.parametrize("known", [True, False], ids=["charged with four", "given four"])
def test_a_server_over_four_gpus_is_held_against_all_of_them(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the first alone a decode step would reach four times what the link to memory gives."""
    read = launched(1, FOUR, observed(FOUR.split(","), "NVML") if known else None, monkeypatch)
    assert (read.value, read.low, read.high) == (12e12, 11.6e12, 12.4e12)
    assert read.method.startswith("4 GPUs, each as the first; read")
    assert launched(1, "GPU-a", None, monkeypatch).value == 3e12


def test_replicas_on_gpus_have_no_ceiling_that_their_requests_together_could_be_held_against(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = launched(4, FOUR, None, monkeypatch)
    assert (read.value, "4 replicas each read the weights" in (read.reason or "")) == (None, True)


def launched(replicas: int, mask: str, uuids: Any, monkeypatch: pytest.MonkeyPatch) -> Estimate:
    """The read bandwidth beside a vLLM that was given these GPUs."""
    rates = {"read_bytes_per_s": READ}
    monkeypatch.setattr("twinlens.measurement.server_ceilings._deciding", lambda device, format, threads: rates)
    data = inference("vllm", protocol={"duration_s": 20, "ceilings": True}, executor={"device": "cuda"})
    data["workload"] |= {"model": "small", "arrival": {"kind": "closed"}}
    data["point"] = {"precision": "bf16", "concurrency": 2}
    (spec, *_) = parse(data, where="here").runs()
    facts = Facts(ExecutorRecord({} if uuids is None else {"accelerator.uuid": uuids}))
    environment = {"CUDA_VISIBLE_DEVICES": mask}
    server = Running(id="1", kind="vllm", url="http://127.0.0.1:1/v1", model="small", pid=1, born_s=0.0, log="",
                     started_utc="", ready_s=1.0, command=(), environment=environment, replicas=replicas)  # fmt: skip
    return server_ceilings(spec, facts, server)["read_bytes_per_s"]
