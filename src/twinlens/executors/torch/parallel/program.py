"""The program of each rank, and its start through torchrun: processes of this machine below one guard."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from twinlens.errors import ExecutorFailed
from twinlens.executors.launch.process import Process
from twinlens.executors.ray_connection import connected, first_line
from twinlens.system.log import read_log, telling_line
from twinlens.version import __version__

WORKER = "twinlens.executors.torch.parallel.worker"


@dataclass(frozen=True, slots=True)
class Program:
    """What each rank runs: a module (with the place of what opens a run there, where torch's own does not), the Python
    that has its packages, and variables besides those of this process.

    `on`: the Ray cluster whose nodes run the ranks; "": this machine. `uses_gpu`: a rank there takes a GPU, if the
    cluster has enough. `restarts`: how often torchrun starts all of them again when one is lost. `numa`: "node" keeps
    each rank on the processors of its GPU's NUMA node.
    """

    module: tuple[str, ...] = (WORKER,)
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)
    on: str = ""
    uses_gpu: bool = False
    restarts: int = 0
    numa: str = "none"


TORCH = Program()


class Torchrun:
    """Ranks of this machine below one process; their logs are in the folder from the start."""

    def __init__(self, count: int, threads: int, program: Program, address: str, folder: Path) -> None:
        environment = dict(os.environ) | {"OMP_NUM_THREADS": str(threads), "TWINLENS_RANKS": address}
        environment |= program.environment
        if sys.platform == "linux":  # all ranks are on this machine: a name that resolves elsewhere must not matter
            environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        # Stores are files of a folder that is ours: one over TCP listens to every interface, and asks nobody who it is.
        environment |= {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "TWINLENS_STORE": str(folder / "store")}
        command = [program.python, "-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", str(count)]
        command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", str(folder / "rendezvous"), "--rdzv-id", folder.name]
        command += ["--rdzv-conf", "store_type=file", "--local-addr", "127.0.0.1"]
        command += ["--log-dir", str(folder), "--redirects", "3", "--max-restarts", str(program.restarts)]
        command += ["--numa-binding", program.numa] if program.numa != "none" else []
        command += ["-m", *program.module]
        self._process = Process(command, environment, folder / "torchrun.log", grace_s=2.0)

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        return self._process.exit_code()

    def collect_logs(self) -> None:
        """They are there."""

    def stop(self) -> None:
        self._process.stop()


_EXIT = re.compile(r"exitcode: (-?\d+)\) local_rank: (\d+)")
_LINES, _DUMP_S = 3, 0.5
# Warnings of torch's profiler, which our evidence starts, and the source line that Python prints below one.
_NOISE = re.compile(
    r"^(STAGE:|\[[WI]\d*|\S+\.py:\d+: \w*Warning:).*profil|^\s+_?warn(ings\.warn|_once)?\(", re.IGNORECASE
)


class Lost:
    """The ranks that are known to be lost. The first that died without a word is the cause: its peers then fail at
    their next exchange, or are ended by torchrun."""

    def __init__(self) -> None:
        self.died: list[int] = []
        self.failed: dict[int, str] = {}
        self.hung: list[int] = []
        self.absent: list[int] = []
        self.patience_s = 0.0
        self._since_s: float | None = None

    @property
    def known(self) -> set[int]:
        return {*self.died, *self.failed, *self.hung, *self.absent}

    def note_died(self, rank: int) -> None:
        self.died.append(rank)
        self._since_s = self._since_s or time.monotonic()

    def note_failed(self, rank: int, how: str) -> None:
        self.failed[rank] = how
        self._since_s = self._since_s or time.monotonic()

    def note_hung(self, ranks: list[int], patience_s: float) -> None:
        self.hung, self.patience_s = ranks, patience_s

    def note_never_began(self, ranks: list[int]) -> None:
        self.absent = ranks

    def is_complete(self, gather_s: float) -> bool:
        """Whether the first loss is long enough ago that its cause must have been heard of too."""
        return self._since_s is not None and time.monotonic() - self._since_s > gather_s


def sentence_on(lost: Lost, count: int, pids: list[int], doing: str, folder: Path) -> str:
    """One sentence: the rank, how it was lost, what was going on, and how its log ends. `pids`: of this machine."""
    if lost.absent:
        named = ", ".join(map(str, lost.absent))
        if not (folder / "torchrun.log").exists():
            log = _end_of_log(folder, lost.absent[0])
            return f"ranks {named} of {count} did not begin, or do not reach this machine; of the first, {log}"
        torchrun = read_log(folder / "torchrun.log")
        own = _log_of(folder, lost.absent[0])
        whose = f"the log of rank {lost.absent[0]}" if own else "the log of torchrun"
        return f"ranks {named} of {count} did not begin; {whose} ends: {telling_line(own or torchrun)}"
    if lost.hung:
        rank = _standing_still(lost.hung, pids) if pids else None
        who = f"rank {rank} of {count}" if rank is not None else f"ranks {', '.join(map(str, lost.hung))} of {count}"
        told = rank if rank is not None else lost.hung[0]
        if pids:
            _ask_for_stack(pids[told])
        waited = f"gave no answer in {lost.patience_s:g} s while {doing} (executor.options.patience_s)"
        return f"{who} {waited}; {_end_of_log(folder, told)}"
    if lost.died:
        rank = lost.died[0]
        return f"rank {rank} of {count} died while {doing}{_signal(folder, rank)}; {_end_of_log(folder, rank)}"
    rank, how = next(iter(lost.failed.items()))
    return f"rank {rank} of {count} failed while {doing}: {how}"


def _standing_still(ranks: list[int], pids: list[int]) -> int | None:
    """The one rank that the system has stopped, where there is one; a rank that waits for it only sleeps."""
    stopped = []
    for rank in ranks:
        with contextlib.suppress(psutil.Error):
            if psutil.Process(pids[rank]).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
                stopped.append(rank)
    if not stopped and len(ranks) == 1:
        return ranks[0]
    return stopped[0] if len(stopped) == 1 else None


def _ask_for_stack(pid: int) -> None:
    """A rank writes its stack into its log when it is sent SIGUSR1."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGUSR1)
        time.sleep(_DUMP_S)


def _signal(folder: Path, rank: int) -> str:
    """How torchrun says that it ended; nothing where it has not said so."""
    ends = {int(local): int(code) for code, local in _EXIT.findall(read_log(folder / "torchrun.log"))}
    code = ends.get(rank)
    if code is None:
        return ""
    return f" (signal {-code}, {signal.Signals(-code).name})" if code < 0 else f" (exit code {code})"


def _end_of_log(folder: Path, rank: int) -> str:
    lines = [line.strip() for line in _log_of(folder, rank).splitlines() if line.strip() and not _NOISE.search(line)]
    return f"its log ends: {' | '.join(lines[-_LINES:])}" if lines else "its log is empty"


def _log_of(folder: Path, rank: int) -> str:
    """All that a rank printed; empty where it printed nothing."""
    return "\n".join(read_log(path) for path in sorted(folder.glob(f"*/attempt_*/{rank}/std*.log"))).strip()


# Ranks on the nodes of a Ray cluster: an actor for each, which holds the same program that torchrun starts here. Ray
# places them and carries their start and their logs. Orders and answers go over a socket to this machine, so that
# nothing of Ray is inside a step: `ray.train.report` would be a barrier with a controller.

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

    def start(self, module: Sequence[str], environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", *module]
        self._process = Process(command, dict(os.environ) | dict(environment), self._log, grace_s=2.0)

    def log(self) -> str:
        return read_log(self._log)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()


class OnRay:
    """Ranks on a cluster. `port`: of this machine, where they connect to with `key`."""

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
