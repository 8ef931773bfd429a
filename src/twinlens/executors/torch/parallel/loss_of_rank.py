"""A rank that was lost: which one, how, and the last lines of its log."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

import psutil

from twinlens.executors.launch.log import read_log, telling_line

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
