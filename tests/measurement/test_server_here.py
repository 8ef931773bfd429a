"""A server that was up already, on this machine or on another: its work is not called that of other programs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil
import pytest

from material import inference, study_of
from twinlens.measurement.server import here
from twinlens.measurement.server.here import Here, server_here
from twinlens.measurement.study import measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.network.null_server import null_server

SHORT = {"duration_s": 1.0, "isolate": False, "telemetry_s": 0.2}


def test_a_server_of_this_machine_is_known_by_its_port() -> None:
    with null_server() as server:
        port = server.url.split(":")[2].split("/")[0]
        child = psutil.Process().children(recursive=True)
        for host in ("127.0.0.1", "localhost"):
            found = server_here(f"http://{host}:{port}/v1")
            assert found is not None
            assert found.pid in {process.pid for process in child}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert server_here(f"http://127.0.0.1:{listener.getsockname()[1]}") == Here(os.getpid())
    assert server_here("http://127.0.0.1:1/v1") == Here(None), "here, and nobody listens"


@pytest.mark.parametrize("url", ["http://192.0.2.1:8000/v1", "http://nosuch.invalid/v1", "http://[::1", None, 3])
def test_what_is_not_here(url: object) -> None:
    assert server_here(url) is None


def test_what_listens_for_a_container_is_not_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "_FORWARDERS", (psutil.Process().name(),))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert server_here(f"http://127.0.0.1:{listener.getsockname()[1]}") == Here(None)


def served(url: str) -> dict:  # type: ignore[type-arg]
    data = inference("openai-http", options={"url": url}, point={"concurrency": 2}, protocol=SHORT)
    return data | {"executor": {"kind": "openai-http", "options": {"url": url}}}


def test_what_others_used_is_not_said_where_the_server_cannot_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with null_server(0.01, 0.001) as server:
        (seen,) = measure_study(study_of(served(server.url)), tmp_path).runs
        monkeypatch.setattr(here, "_listening", lambda port: None)
        (unseen,) = measure_study(study_of(served(server.url), "protocol.seed=1"), tmp_path).runs
    found = [[row for row in run.telemetry.to_pylist() if row["source"] == "host"] for run in (seen, unseen)]
    assert all(found)
    assert any(row["foreign_cpu"] is not None for row in found[0])
    assert not any(row["foreign_cpu"] is not None for row in found[1])
    sources = [finding.numbers.get("source") for finding in summary_of(unseen).findings if finding.code == "cause"]
    assert "other-programs" not in sources
