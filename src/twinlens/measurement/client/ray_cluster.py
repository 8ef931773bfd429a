"""Clients on other machines: one to a node of a Ray cluster, each a process of its own beside its actor.

Ray starts the actors, puts them on their nodes and carries what is said; the client itself is the same process as on
this machine, so nothing of Ray runs in its loop. Rows are kept by the actor until the run has acknowledged them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.ray_connection import connected, first_line
from twinlens.measurement.client.messages import Job
from twinlens.measurement.client.pool import ClientHandle, jobs_for
from twinlens.measurement.client.ray_actor import Host, RayClient
from twinlens.network.dialect.endpoint import EndpointConfig
from twinlens.network.target import ClientPool
from twinlens.schedule.plan import Plan
from twinlens.spec.study import RunSpec
from twinlens.system.interrupts import ignore_interrupts
from twinlens.version import __version__

_START_S = 60.0


@contextlib.contextmanager
def dispatched(
    pool: ClientPool, spec: RunSpec, plan: Plan | None, endpoint: EndpointConfig, say: Callable[[str], None]
) -> Iterator[tuple[list[Job], list[ClientHandle]]]:
    """Clients on the nodes of the cluster `pool.on`, one each or `pool.clients` in all, just started.

    Raises BadInput where Ray is not installed or the load cannot be split, ExecutorFailed (TL331) where the cluster
    cannot be reached or its nodes cannot run them.
    """
    assert pool.on is not None
    say(f"connecting to {pool.on}")
    with connected(pool.on, "clients") as ray:
        nodes = _nodes(ray, endpoint)
        count = pool.clients if isinstance(pool.clients, int) else len(nodes)
        jobs = jobs_for(spec, plan, endpoint, count)
        clients: list[ClientHandle] = []
        try:
            say(f"starting {count} clients on {len(nodes)} nodes")
            for job in jobs:
                clients.append(_started(ray, nodes[job.share.index % len(nodes)], job))
            for client in clients:
                _check(ray, client)
            yield jobs, clients
        finally:
            with ignore_interrupts():
                for client in clients:
                    client.close()


def _nodes(ray: Any, endpoint: EndpointConfig) -> list[dict[str, Any]]:
    """The nodes that have a processor to give, in a fixed order."""
    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    if not alive:
        raise ExecutorFailed("the Ray cluster has no node with a free processor", code="TL331")
    if (
        endpoint.target.host in ("localhost", "127.0.0.1", "::1")
        and len({node["NodeManagerAddress"] for node in alive}) > 1
    ):
        raise BadInput(
            f"{endpoint.target.url} means another machine on each node; give the server's own name or address "
            "(--url; of a server that Twinlens starts: --set executor.options.host=ADDRESS)",
            code="TL207",
        )
    return sorted(alive, key=lambda node: str(node["NodeID"]))


def _started(ray: Any, node: dict[str, Any], job: Job) -> RayClient:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    name = f"client {job.share.index} on node {node['NodeManagerHostname']}/{node['NodeID'][:6]}"
    where = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
    actor = ray.remote(Host).options(num_cpus=1, max_restarts=0, scheduling_strategy=where).remote(name, job)
    return RayClient(ray, actor, name)


def _check(ray: Any, client: Any) -> None:
    try:
        version, _ = ray.get(client.actor.about.remote(), timeout=_START_S)
    except ray.exceptions.GetTimeoutError:
        raise ExecutorFailed(
            f"{client.name}: the node gave it no processor within {_START_S:g} s", code="TL331"
        ) from None
    except ray.exceptions.RayError as error:
        raise ExecutorFailed(
            f"{client.name} could not start ({first_line(error)}); is twinlens {__version__} installed there?",
            code="TL331",
        ) from None
    if version != __version__:
        raise ExecutorFailed(f"{client.name} runs twinlens {version}, and this is {__version__}", code="TL331")
