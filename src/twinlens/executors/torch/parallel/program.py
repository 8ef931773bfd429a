"""The program of each rank, and its start through torchrun: processes of this machine below one guard."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from twinlens.executors.launch.process import Process


@dataclass(frozen=True, slots=True)
class Program:
    """What each rank runs: a module, the Python that has its packages, and variables besides those of this process.

    `on`: the Ray cluster whose nodes run the ranks; "": this machine. `uses_gpu`: a rank there takes a GPU, if the
    cluster has enough. `restarts`: how often torchrun starts all of them again when one is lost. `numa`: "node" keeps
    each rank on the processors of its GPU's NUMA node.
    """

    module: str = "twinlens.executors.torch.parallel.worker"
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)
    on: str = ""
    uses_gpu: bool = False
    restarts: int = 0
    numa: str = "none"


TORCH = Program()


class World(Protocol):
    """Ranks that were started, wherever they run."""

    @property
    def pid(self) -> int | None:
        """The process of this machine below which all ranks are; None where there is none."""
        ...

    def exit_code(self) -> int | None:
        """None while any of it runs."""
        ...

    def collect_logs(self) -> None:
        """Put the ranks' logs into the folder of this world, as torchrun names them."""
        ...

    def stop(self) -> None:
        """End all of it; may be called again."""
        ...


class Torchrun:
    """Ranks of this machine: their logs are in the folder from the start."""

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
        command += ["-m", program.module]
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
