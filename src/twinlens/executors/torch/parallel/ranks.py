"""The ranks of one world: started through torchrun, asked together, and ended surely, whatever happens to one."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import shutil
import signal
import socket
import time
from multiprocessing.connection import Connection, wait
from typing import Any

import psutil

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.protocol import Say
from twinlens.executors.refuse import refuse_shared_gpu
from twinlens.executors.torch.parallel.program import TORCH, WORKER, Lost, OnRay, Program, Torchrun, sentence_on
from twinlens.spec.device import AskedDevice
from twinlens.spec.study import RunSpec
from twinlens.system.log import owned_folder
from twinlens.system.processes import this_machine, usable_cores

_GATHER_S, _END_S, _GREETING_S = 2.0, 5.0, 5.0
_MOST_OF_GREETING = 4096


class Ranks:
    """`count` processes with `threads` each. A rank has `patience_s` for each sign of life. Where the
    program has restarts, torchrun starts all of them again when one is lost; `rejoin` takes them."""

    def __init__(self, count: int, threads: int, patience_s: float, program: Program = TORCH) -> None:
        self._count, self.patience_s, self._program = count, patience_s, program
        self._folder = owned_folder("ranks")
        self._pipes: list[Connection] = []
        self._pids: list[int] = []
        self._machines: list[str] = []
        self._key = secrets.token_hex(16) if program.on else ""
        self._world: Torchrun | OnRay | None = None
        self._listening: socket.socket | None = None
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
    def first_pids(self) -> list[int]:
        """torchrun, below which the ranks are; of ranks on a cluster those that run on this machine, below nobody of
        ours."""
        assert self._world is not None
        if self._world.pid is not None:
            return [self._world.pid]
        return [
            pid
            for pid, at in zip(self._pids, self._machines, strict=True)
            if at == this_machine() and self._is_one(pid)
        ]

    def _is_one(self, pid: int) -> bool:
        """Whether it is a rank: of one in a container the number may be another process here."""
        with contextlib.suppress(psutil.Error):
            return WORKER in psutil.Process(pid).cmdline()
        return False

    @property
    def share_a_clock(self) -> bool:
        """Whether all ranks and this process read one monotonic clock: that of this machine."""
        return set(self._machines) == {this_machine()}

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

    def kill(self, rank: int, order: dict[str, Any]) -> int:
        """Give all ranks an order and kill one at it; when, in ns on the monotonic clock."""
        self._send(order)
        os.kill(self._pids[rank], signal.SIGKILL)
        return time.monotonic_ns()

    def await_end(self) -> None:
        """Wait until no rank of this attempt is left. Raises ExecutorFailed (TL307) for one that does not end."""
        left = dict(enumerate(self._pipes))
        until_s = time.monotonic() + self.patience_s
        while left:
            for rank in self._readable(list(left), 0.5):
                try:
                    left[rank].recv_bytes()
                except (EOFError, OSError):
                    del left[rank]
            if time.monotonic() > until_s:
                lost = Lost()
                lost.note_hung(list(left), self.patience_s)
                raise self._failed(lost, "ending for a restart")

    def rejoin(self) -> int:
        """Take the ranks that torchrun starts again; the number of the attempt. Raises ExecutorFailed (TL307)."""
        assert self._listening is not None
        for pipe in self._pipes:
            pipe.close()
        self._pipes = []
        return self._accept(self._listening)

    def close(self) -> None:
        """End all of them; nothing of them is left when this returns. May be called again."""
        with contextlib.suppress(OSError):
            self._send({"order": "close"})
        if self._world is not None:
            until_s = time.monotonic() + _END_S
            while self._world.exit_code() is None and time.monotonic() < until_s:
                time.sleep(0.02)
            self._world.stop()
        for pipe in self._pipes:
            pipe.close()
        self._pipes = []
        if self._listening is not None:
            self._listening.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, threads: int) -> None:
        self._listening = listening = self._bound()
        listening.listen(self._count)
        listening.settimeout(0.5)
        if self._program.on:
            port = listening.getsockname()[1]
            self._world = OnRay(self._count, threads, self._program, port, self._key, self._folder)
        else:
            self._world = Torchrun(self._count, threads, self._program, listening.getsockname(), self._folder)
        self._accept(listening)

    def _bound(self) -> socket.socket:
        """A socket of this machine's file system, or where nodes of a cluster reach it."""
        listening = socket.socket(socket.AF_INET if self._program.on else socket.AF_UNIX)
        listening.bind(("", 0) if self._program.on else str(self._folder / "ranks.sock"))
        return listening

    def _accept(self, listening: socket.socket) -> int:
        """Wait for every rank of one attempt to say its number. They connect before they import torch."""
        known: dict[int, tuple[Connection, int, str]] = {}
        attempt = 0
        until_s = time.monotonic() + self.patience_s
        while len(known) < self._count:
            assert self._world is not None
            try:
                connected, _ = listening.accept()
            except TimeoutError:
                if self._world.exit_code() is None and time.monotonic() < until_s:
                    continue
                missing = sorted(set(range(self._count)) - set(known))
                lost = Lost()
                lost.note_never_began(missing)
                raise self._failed(lost, "starting") from None
            if (greeted := self._greeted(connected)) is not None:
                pipe, hello = greeted
                if hello["attempt"] > attempt:  # the one before failed before all had begun
                    known.clear()
                    attempt = hello["attempt"]
                known[hello["rank"]] = pipe, hello["pid"], str(hello["machine"])
        self._pipes = [known[rank][0] for rank in range(self._count)]
        self._pids = [known[rank][1] for rank in range(self._count)]
        self._machines = [known[rank][2] for rank in range(self._count)]
        return attempt

    def _greeted(self, connected: socket.socket) -> tuple[Connection, dict[str, Any]] | None:
        """What a rank says first; None where it does not know the key, and so is nobody's rank."""
        connected.settimeout(None)
        pipe = Connection(connected.detach())
        with contextlib.suppress(EOFError, OSError, ValueError, TypeError, KeyError):
            if pipe.poll(_GREETING_S):
                hello = json.loads(pipe.recv_bytes(_MOST_OF_GREETING))
                if hmac.compare_digest(str(hello["key"]), self._key) and 0 <= int(hello["rank"]) < self._count:
                    return pipe, hello
        pipe.close()
        return None

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
        assert self._world is not None
        self._world.collect_logs()
        pids = self._pids if not self._program.on else []  # a number of another machine means another process here
        sentence = sentence_on(lost, self._count, pids, doing, self._folder)
        return ExecutorFailed(sentence, code="TL307")


def program_on(spec: RunSpec, cluster: str) -> Program:
    """The program of each rank of a run, here or on a cluster."""
    return Program(on=cluster, uses_gpu=bool(cluster) and spec.device.kind != "cpu")


def ranks_of(spec: RunSpec, asked: Any, program: Program, say: Say) -> Ranks:
    """Start the ranks of a run. `asked`: its options. Raises ExecutorFailed (TL307) where one does not begin."""
    say(f"starting {asked.ranks} ranks{f' on {program.on}' if program.on else ''}")
    threads = spec.executor.threads or max(1, usable_cores() // asked.ranks)
    return Ranks(asked.ranks, threads, asked.patience_s, program)


# GPUs for ranks: one each, counted before any rank is started. Needs torch where a GPU may be meant.

USUAL_ON_PROCESSOR = 2


def usual_ranks(asked: AskedDevice) -> int:
    """One for each GPU that torch sees; two on a processor, and on a single GPU."""
    return max(USUAL_ON_PROCESSOR, _gpus(asked))


def refuse_too_few_gpus(asked: AskedDevice, ranks: int) -> None:
    """Raises BadInput (TL208) where ranks would have to share a GPU or one GPU is named for several, and for a device
    that is not here."""
    refuse_shared_gpu(asked, ranks, 0)  # what is named needs no count
    refuse_shared_gpu(asked, ranks, _gpus(asked))


def on_processor(asked: AskedDevice) -> bool:
    """Whether ranks of this device exchange through gloo."""
    return _gpus(asked) == 0


def _gpus(asked: AskedDevice) -> int:
    """0 where the processor is meant."""
    if asked.kind == "cpu":
        return 0
    import torch

    from twinlens.executors.torch.device import choose_device

    return int(torch.cuda.device_count()) if choose_device(asked).type == "cuda" else 0
