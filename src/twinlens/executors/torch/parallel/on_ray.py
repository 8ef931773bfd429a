"""Ranks on the nodes of a Ray cluster: an actor for each, which holds the same program that torchrun starts here.

Ray places them and carries their start and their logs. Orders and answers go over a socket to this machine, so that
nothing of Ray is inside a step: `ray.train.report` would be a barrier with a controller.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinlens.errors import ExecutorFailed
from twinlens.executors.launch.log import read_log
from twinlens.executors.launch.process import Process
from twinlens.executors.ray_connection import connected, first_line
from twinlens.executors.torch.parallel.program import Program
from twinlens.version import __version__

_START_S = 120.0


class RankHost:
    """The actor: one rank below the guard that launched servers have, so that it ends with its actor."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._log = Path(tempfile.mkdtemp(prefix="twinlens-rank-")) / "rank.log"

    def about(self) -> tuple[str, str, int]:
        """The version of Twinlens here, this node's address, and a port of it that is free."""
        import ray

        with socket.socket() as free:
            free.bind(("", 0))
            return __version__, str(ray.util.get_node_ip_address()), int(free.getsockname()[1])

    def start(self, module: str, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", module]
        self._process = Process(command, dict(os.environ) | dict(environment), self._log, grace_s=2.0)

    def log(self) -> str:
        return read_log(self._log)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()


class OnRay:
    """See `World`. `port`: of this machine, where the ranks connect to with `key`."""

    def __init__(self, count: int, threads: int, program: Program, port: int, key: str, folder: Path) -> None:
        self._folder, self._count, self._stack = folder, count, contextlib.ExitStack()
        self._actors: list[Any] = []
        try:
            self._ray = self._stack.enter_context(connected(program.on, "ranks"))
            try:
                self._begin(threads, program, port, key)
            except self._ray.exceptions.RayError as error:
                raise ExecutorFailed(
                    f"the ranks cannot be started on {program.on} ({first_line(error)}); is twinlens {__version__} "
                    "installed on its nodes?",
                    code="TL331",
                ) from None
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> None:
        """None: the ranks are below Ray's processes."""
        return None

    def exit_code(self) -> int | None:
        """Never known from here: a rank that is gone is a closed socket."""
        return None

    def collect_logs(self) -> None:
        for rank, actor in enumerate(self._actors):
            with contextlib.suppress(self._ray.exceptions.RayError):
                log = self._folder / "ray" / "attempt_0" / str(rank) / "stderr.log"
                log.parent.mkdir(parents=True, exist_ok=True)
                log.write_text(self._ray.get(actor.log.remote(), timeout=5.0), encoding="utf-8")

    def stop(self) -> None:
        with contextlib.suppress(Exception):  # of a cluster that is gone nothing is left to end
            self._ray.get([actor.stop.remote() for actor in self._actors], timeout=30.0)
            for actor in self._actors:
                self._ray.kill(actor)
        self._actors = []
        self._stack.close()

    def _begin(self, threads: int, program: Program, port: int, key: str) -> None:
        from ray.util.placement_group import placement_group, remove_placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        needs = {"CPU": 1.0}
        if program.uses_gpu and self._ray.cluster_resources().get("GPU", 0) >= self._count:
            needs["GPU"] = 1.0
        group = placement_group([needs] * self._count, strategy="PACK")
        self._stack.callback(remove_placement_group, group)
        if not group.wait(_START_S):
            raise ExecutorFailed(
                f"{program.on} had no room for {self._count} ranks within {_START_S:g} s; each takes a processor"
                f"{' and a GPU' if 'GPU' in needs else ''}",
                code="TL331",
            )
        host = self._ray.remote(RankHost)
        for rank in range(self._count):
            where = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)
            options = {"num_cpus": 1, "num_gpus": needs.get("GPU", 0), "scheduling_strategy": where}
            self._actors.append(host.options(**options).remote())
        known = self._ray.get([actor.about.remote() for actor in self._actors], timeout=_START_S)
        _refuse_other_versions([version for version, _, _ in known])
        addresses = [address for _, address, _ in known]
        shared = {
            "WORLD_SIZE": str(self._count),
            "LOCAL_RANK": "0",  # Ray shows an actor its own GPU alone
            "MASTER_ADDR": addresses[0],
            "MASTER_PORT": str(known[0][2]),
            "OMP_NUM_THREADS": str(threads),
            "TWINLENS_RANKS": f"tcp://{_own_address(addresses[0])}:{port}",
            "TWINLENS_RANKS_KEY": key,
        }
        started = [
            actor.start.remote(program.module, shared | {"RANK": str(rank)} | dict(program.environment))
            for rank, actor in enumerate(self._actors)
        ]
        self._ray.get(started, timeout=_START_S)


def _refuse_other_versions(versions: list[str]) -> None:
    if others := sorted(set(versions) - {__version__}):
        raise ExecutorFailed(
            f"a node of the cluster has twinlens {others[0]}, and this is {__version__}; install the same there",
            code="TL331",
        )


def _own_address(towards: str) -> str:
    """The address of this machine by which a node reaches it: that of the interface on the way to the node."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:  # nothing is sent
        asking.connect((towards, 9))
        return str(asking.getsockname()[0])
