"""Data-parallel training in two processes of this machine, which add up their gradients over gloo after each step."""

from __future__ import annotations

import contextlib
import datetime
import multiprocessing
import socket
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from twinlens.errors import ExecutorFailed
from twinlens.executors.protocol import Say
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, declared
from twinlens.record.step import Marks
from twinlens.spec.study import RunSpec
from twinlens.system import spawned

_WIDTH = 2048
_LAYERS = 2
_PATIENCE = datetime.timedelta(seconds=60)
_SPAWN = multiprocessing.get_context("spawn")


def is_possible() -> bool:
    """Whether this torch has gloo."""
    return bool(dist.is_available() and dist.is_gloo_available())


class TwoProcesses:
    """Rank 0; rank 1 is a process that does the same steps."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        say("starting the second process")
        torch.set_num_threads(1)
        port = _free_port()
        ours, theirs = _SPAWN.Pipe()
        self._pipe = ours
        self._peer = _SPAWN.Process(target=_second, args=(theirs, port), daemon=True)
        spawned.start(self._peer)
        theirs.close()
        self._rank = _Rank(0, port)
        self._origin_ns: int | None = None
        where = "executors/torch/two_processes.py"
        return Facts(ExecutorRecord({"software.framework.name": declared("torch, gloo, 2 processes", where)}))

    def step(self) -> Marks:
        if self._origin_ns is None:
            self._origin_ns = time.monotonic_ns()
        try:
            self._pipe.send("step")
            marks = self._rank.step()
        except (OSError, RuntimeError) as error:
            raise ExecutorFailed(f"the second process of the self-test is lost: {error}", code="TL302") from error
        begin, data, forward, backward, communicate, end = (mark - self._origin_ns for mark in marks)
        return Marks(
            begin, end, samples=2, tokens=2, data_ns=data - begin, forward_ns=forward - data,
            backward_ns=backward - forward, communicate_ns=communicate - backward, optimize_ns=end - communicate,
        )  # fmt: skip

    def close(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            self._pipe.close()
        with contextlib.suppress(AttributeError):
            self._rank.close()
        if peer := getattr(self, "_peer", None):
            peer.join(5)
            if peer.is_alive():
                peer.kill()
                peer.join()


class _Rank:
    """One replica: two wide layers, one sample, plain gradient descent."""

    def __init__(self, rank: int, port: int) -> None:
        address = f"tcp://127.0.0.1:{port}"
        dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2, timeout=_PATIENCE)
        torch.manual_seed(0)
        self.model = nn.Sequential(*(nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(_LAYERS)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-6)

    def step(self) -> list[int]:
        """Moments in ns: begin, and after data, forward, backward, communication and optimizer."""
        moments = [time.monotonic_ns()]

        def mark() -> None:
            moments.append(time.monotonic_ns())

        inputs = torch.ones(1, _WIDTH)
        mark()
        loss = self.model(inputs).square().mean()
        mark()
        loss.backward()
        mark()
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)
        mark()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        mark()
        return moments

    def close(self) -> None:
        dist.destroy_process_group()


def _second(pipe: Any, port: int) -> None:
    torch.set_num_threads(1)
    rank = _Rank(1, port)
    with contextlib.suppress(EOFError, OSError, RuntimeError):
        while pipe.recv() == "step":
            rank.step()
    with contextlib.suppress(RuntimeError):
        rank.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
