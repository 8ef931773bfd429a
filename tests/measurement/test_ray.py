"""Clients on a Ray cluster: two nodes on this machine, a run through the command line, and one that loses a node."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from material import inference, quiet, run_json, spec_of, study_of, twinlens
from twinlens.errors import ExecutorFailed
from twinlens.executors.openai.executor import OpenAIServer
from twinlens.measurement.client.coordinate import Coordinator
from twinlens.measurement.client.pool import await_ready
from twinlens.network.null_server import null_server
from twinlens.network.target import ClientPool
from twinlens.record.store import find_runs
from twinlens.schedule.build import planned_load
from twinlens.spec.load import dump

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.alone]
ray = pytest.importorskip("ray", reason="needs the ray extra")

NODE = {"num_cpus": 1, "object_store_memory": 100_000_000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Two nodes; the address by which other processes of this machine find them."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    nodes = Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
    try:
        nodes.add_node(**NODE)
        ray.init(nodes.address, logging_level="ERROR", log_to_driver=False)
        yield str(nodes.address)
    finally:
        ray.shutdown()
        nodes.shutdown()


def asked(url: str, seconds: float, **options: Any) -> dict[str, Any]:
    return inference(
        "openai-http",
        options={"url": url} | options,
        arrival={"kind": "poisson"},
        point={"rate_per_s": 60.0},
        protocol={"duration_s": seconds, "min_rows": 1, "isolate": True},
    )


def test_a_run_on_two_nodes_is_one_run_with_its_clocks_aligned(cluster: str, tmp_path: Path) -> None:
    with null_server(ttft_s=0.02, itl_s=0.01) as server:
        spec = tmp_path / "ray.toml"
        spec.write_text(dump(study_of(asked(server.url, 1.5))))
        done = twinlens("measure", spec, "--on", "ray://local", "--out", tmp_path / "out", "-q", RAY_ADDRESS=cluster)
        assert done.returncode == 0, done.stderr
        truth = len(server.truth())
    (run,) = find_runs(tmp_path / "out")
    plan = planned_load(run.spec).plan
    assert plan is not None
    rows = run.table.sort_by("group")
    assert rows.column("intended_ns").to_pylist() == plan.intended_ns.tolist()
    assert rows.column("client").to_pylist() == [number % 2 for number in range(len(plan))]
    assert set(rows.column("outcome").to_pylist()) == {"ok"}
    assert truth == len(plan) + 1, "every request reached the server once, and the one that asked who it is"
    clients = run_json(run)["client"]["clients"]
    assert len({client["name"].rpartition("/")[2] for client in clients}) == 2, "a client on each node"
    assert run_json(run)["calibration"]["clients"] == 2
    for client in clients:
        assert abs(client["clock_offset_ns"]) <= client["clock_bound_ns"], "both nodes are this machine: the truth is 0"
    assert run_json(run)["client"]["clock_bound_ns"] == max(client["clock_bound_ns"] for client in clients) > 0
    shown = twinlens("show", "--all", run.folder)
    assert "clock bound" in shown.stdout


def test_a_node_that_is_lost_takes_no_row_along(cluster: str) -> None:
    from twinlens.measurement.client.ray_cluster import dispatched

    tables: list[pa.Table] = []
    with null_server(ttft_s=0.02, itl_s=0.01) as server:
        spec = spec_of(asked(server.url, 2.5))
        parent, plan = OpenAIServer(), planned_load(spec).plan
        assert plan is not None
        parent.open(spec, quiet)
        with dispatched(ClientPool(on="ray://local"), spec, plan, parent.network_client.endpoint(), quiet) as (
            jobs,
            clients,
        ):
            await_ready(clients)
            _, pid = ray.get(clients[1].actor.about.remote())
            client = psutil.Process(pid)
            actor = client.parent()
            assert actor is not None

            def kill(now_ns: int) -> None:
                if now_ns > 1.2e9 and actor.is_running():
                    os.kill(actor.pid, signal.SIGKILL)

            together = Coordinator(jobs, clients, tables.append, kill)
            together.play(lambda origin_ns: None)
        parent.close()
    rows = pa.concat_tables(tables)
    assert sorted(rows.column("group").to_pylist()) == list(range(len(plan)))
    failed = rows.filter(pa.compute.equal(rows.column("outcome"), "failed"))
    assert set(failed.column("client").to_pylist()) == {1}
    (why,) = set(failed.column("error").to_pylist())
    assert why.startswith(f"{clients[1].name} was lost: it died with its actor (")
    alive = rows.filter(pa.compute.equal(rows.column("client"), 0))
    assert set(alive.column("outcome").to_pylist()) == {"ok"}
    assert len(failed) < len(plan) / 2 - 5, "what it had shipped counts"
    assert together.record()["lost"]
    psutil.wait_procs([client], timeout=10)
    assert not client.is_running(), "the client dies with its actor"


def test_a_server_that_a_node_cannot_reach_is_named(cluster: str) -> None:
    from twinlens.measurement.client.ray_cluster import dispatched

    with null_server() as server:
        spec = spec_of(asked(server.url, 1.0))
        parent = OpenAIServer()
        parent.open(spec, quiet)
        endpoint = parent.network_client.endpoint()
        parent.close()
    unreached = r"client 0 on node .*: no server answers at http://127\.0\.0\.1"
    here = ClientPool(1, "ray://local")
    with dispatched(here, spec, None, endpoint, quiet) as (_, clients), pytest.raises(ExecutorFailed, match=unreached):
        await_ready(clients)


def test_load_on_a_cluster_is_for_servers_over_http(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(dump(study_of(inference("fake"))))
    done = twinlens("measure", spec, "--on", "ray://local", "--out", tmp_path / "out", "-q")
    assert done.returncode == 2
    assert "the fake executor has no option 'on'" in done.stderr


def test_a_cluster_that_is_not_there_is_named(tmp_path: Path) -> None:
    with null_server() as server:
        spec = tmp_path / "spec.toml"
        spec.write_text(dump(study_of(asked(server.url, 1.0))))
        done = twinlens("measure", spec, "--on", "ray://127.0.0.1:9", "--out", tmp_path / "out", "-q")
    assert done.returncode == 3
    assert "the Ray cluster ray://127.0.0.1:9 cannot be reached" in done.stderr
    (record,) = (tmp_path / "out").glob("*/*/run.json")
    assert json.loads(record.read_text())["state"] == "failed"
