"""The ranks of one world: started through torchrun, asked together, and ended surely, whatever happens to one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.launch.process import Process
from twinlens.executors.protocol import Say
from twinlens.executors.torch.parallel.loss_of_rank import Lost, sentence_on

_WORKER = "twinlens.executors.torch.parallel.worker"
_GATHER_S, _END_S = 2.0, 5.0


class Ranks:
    """`count` processes with `threads` each. A rank has `patience_s` for each sign of life."""

    def __init__(self, count: int, threads: int, patience_s: float) -> None:
        self._count, self.patience_s = count, patience_s
        self._folder = Path(tempfile.mkdtemp(prefix="twinlens-ranks-"))
        self._pipes: list[Connection] = []
        self._pids: list[int] = []
        self._process: Process | None = None
        try:
            self._start(threads)
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """The processes of the ranks, by rank."""
        return list(self._pids)

    @property
    def pid(self) -> int:
        """torchrun, below which the ranks are."""
        assert self._process is not None
        return self._process.pid

    def ask(self, order: dict[str, Any], doing: str, say: Say | None = None) -> list[Any]:
        """Give all ranks an order; their answers, by rank.

        Raises BadInput as a rank did, and ExecutorFailed (TL307) where one died, failed or did not answer in time.
        """
        self._send(order)
        answers: dict[int, Any] = {}
        heard_s = [time.monotonic()] * self._count
        lost = Lost()
        while len(answers) < self._count:
            waiting = [rank for rank in range(self._count) if rank not in answers and rank not in lost.known]
            for rank in self._readable(waiting, 0.5):
                heard_s[rank] = time.monotonic()
                self._take(rank, answers, lost, say)
            if lost.is_complete(_GATHER_S) or (lost.known and not waiting):
                raise self._failed(lost, doing)
            late = [rank for rank in waiting if time.monotonic() - heard_s[rank] > self.patience_s]
            if late and not lost.known:
                lost.note_hung(late, self.patience_s)
                raise self._failed(lost, doing)
        return [answers[rank] for rank in range(self._count)]

    def close(self) -> None:
        """End all of them; nothing of them is left when this returns. May be called again."""
        with contextlib.suppress(OSError):
            self._send({"order": "close"})
        if self._process is not None:
            until_s = time.monotonic() + _END_S
            while self._process.exit_code() is None and time.monotonic() < until_s:
                time.sleep(0.02)
            self._process.stop()
        for pipe in self._pipes:
            pipe.close()
        self._pipes = []
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, threads: int) -> None:
        address = str(self._folder / "ranks.sock")
        environment = dict(os.environ) | {"OMP_NUM_THREADS": str(threads), "TWINLENS_RANKS": address}
        if sys.platform == "linux":  # all ranks are on this machine: a name that resolves elsewhere must not matter
            environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self._count)]
        command += ["--log-dir", str(self._folder), "--redirects", "3", "-m", _WORKER]
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen(self._count)
            listening.settimeout(0.5)
            self._process = Process(command, environment, self._folder / "torchrun.log", grace_s=2.0)
            self._accept(listening)

    def _accept(self, listening: socket.socket) -> None:
        """Wait for every rank to say its number. They connect before they import torch."""
        known: dict[int, tuple[Connection, int]] = {}
        until_s = time.monotonic() + self.patience_s
        while len(known) < self._count:
            assert self._process is not None
            try:
                connected, _ = listening.accept()
            except TimeoutError:
                if self._process.exit_code() is None and time.monotonic() < until_s:
                    continue
                missing = sorted(set(range(self._count)) - set(known))
                lost = Lost()
                lost.note_never_began(missing)
                raise self._failed(lost, "starting") from None
            connected.settimeout(None)
            pipe = Connection(connected.detach())
            hello = json.loads(pipe.recv_bytes())
            known[hello["rank"]] = pipe, hello["pid"]
        self._pipes = [known[rank][0] for rank in range(self._count)]
        self._pids = [known[rank][1] for rank in range(self._count)]

    def _send(self, order: dict[str, Any]) -> None:
        message = json.dumps(order).encode()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):  # one that is gone is noticed where its answer is awaited
                pipe.send_bytes(message)

    def _readable(self, ranks: list[int], timeout_s: float) -> list[int]:
        ready = wait([self._pipes[rank] for rank in ranks], timeout_s)
        return [rank for rank in ranks if self._pipes[rank] in ready]

    def _take(self, rank: int, answers: dict[int, Any], lost: Lost, say: Say | None) -> None:
        try:
            message = json.loads(self._pipes[rank].recv_bytes())
        except (EOFError, OSError):
            lost.note_died(rank)
            return
        if "say" in message:
            if say is not None and rank == 0:
                say(message["say"])
        elif "bad" in message:
            raise BadInput(message["bad"], code=message["code"])
        elif "failed" in message:
            lost.note_failed(rank, message["failed"])
        else:
            answers[rank] = message["answer"]

    def _failed(self, lost: Lost, doing: str) -> ExecutorFailed:
        sentence = sentence_on(lost, self._count, self._pids, doing, self._folder)
        return ExecutorFailed(sentence, code="TL307")
