"""Ceilings beside a server: measured after the load where it runs here, and never where nothing could use them."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from material import inference
from twinlens.measurement.server_ceilings import server_ceilings
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord
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
