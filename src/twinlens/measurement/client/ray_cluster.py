"""Clients on other machines: one to a node of a Ray cluster, each a process of its own beside its actor.

Ray starts the actors, puts them on their nodes and carries what is said; the client itself is the same process as on
this machine, so nothing of Ray runs in its loop. Rows are kept by the actor until the run has acknowledged them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.ray_connection import connected, first_line
from twinlens.measurement.client.clock import Offset, bound_over, measured_offset
from twinlens.measurement.client.messages import Instruction, Job, Lost, Play, Report
from twinlens.measurement.client.pool import ClientHandle, jobs_for
from twinlens.measurement.client.process import ClientProcess
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


# A client on a node of a Ray cluster: the actor that holds it there, and the handle that holds the actor here.

_TAKE_S = 0.25
_SILENT_S = 20.0


class Host:
    """The actor: it holds one client process on its node and what that said, until that is acknowledged."""

    def __init__(self, name: str, job: Job) -> None:
        self._client = ClientProcess(name, job)
        self._client.start()
        self._kept: list[tuple[int, Report]] = []
        self._number = 0

    def about(self) -> tuple[str, int]:
        """The version of Twinlens here, and the client's process."""
        return __version__, self._client.pid

    def now_ns(self) -> int:
        """The monotonic clock of this node, which the client reads too."""
        return time.monotonic_ns()

    def say(self, order: Instruction) -> None:
        self._client.say(order)

    def take(self, acknowledged: int) -> tuple[list[tuple[int, Report]], str | None]:
        """All reports after number `acknowledged`, numbered, and how the client was lost, if it was."""
        self._kept = [kept for kept in self._kept if kept[0] > acknowledged]
        lost = None
        try:
            for report in self._client.receive():
                self._number += 1
                self._kept.append((self._number, report))
        except Lost as gone:
            lost = str(gone)
        return self._kept, lost

    def stop(self) -> None:
        self._client.stop()


class RayClient:
    """The handle of a client on another node."""

    def __init__(self, ray: Any, actor: Any, name: str) -> None:
        self.name = name
        self._ray, self.actor = ray, actor
        self._asked: Any = None
        self._asked_s = 0.0
        self._acknowledged = 0
        self._gone: str | None = None
        self._first: Offset | None = None
        self.clock: Offset | None = None

    def align(self) -> None:
        """Measure its clock against ours; again after the run, so that what it drifted meanwhile is in the bound."""
        try:
            offset = measured_offset(lambda: int(self._ray.get(self.actor.now_ns.remote(), timeout=_SILENT_S)))
        except self._ray.exceptions.RayError:
            return  # it is gone: what is known of its clock stays what it was
        self._first = self._first or offset
        self.clock = Offset(self._first.offset_ns, bound_over(self._first, offset))

    def say(self, order: Instruction) -> None:
        self.actor.say.remote(order)

    def begin_at(self, origin_ns: int) -> None:
        """Let it play; time zero is this moment of our monotonic clock."""
        if self.clock is not None:  # else it was gone before its clock could be asked, and `receive` says so
            self.say(Play(origin_ns + self.clock.offset_ns))

    def receive(self) -> list[Report]:
        """Reports that have come meanwhile. Raises Lost once the client is gone and all its reports were received."""
        if self._gone is not None:
            raise Lost(self._gone)
        if self._asked is None:
            if time.monotonic() - self._asked_s < _TAKE_S:
                return []
            self._asked, self._asked_s = self.actor.take.remote(self._acknowledged), time.monotonic()
        answered, _ = self._ray.wait([self._asked], timeout=0)
        if not answered:
            if time.monotonic() - self._asked_s > _SILENT_S:
                self._gone = f"has not been heard of for {_SILENT_S:g} s"
            return []
        try:
            kept, self._gone = self._ray.get(self._asked)
        except self._ray.exceptions.RayError as error:
            raise Lost(f"died with its actor ({first_line(error)})") from None
        self._asked = None
        if kept:
            self._acknowledged = kept[-1][0]
        return [report for _, report in kept]

    def stop(self) -> None:
        """Make the client give up what it plays; its last rows and its end still come."""
        self.actor.stop.remote()

    def close(self) -> None:
        """End it surely: its process dies with the actor."""
        with contextlib.suppress(Exception):
            self._ray.kill(self.actor)
