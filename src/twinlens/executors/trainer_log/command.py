"""The user's own command, which a run starts: without a shell, in a process group of its own, gone when the run is."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.launch.log import read_log, telling_line
from twinlens.executors.launch.process import Process
from twinlens.record.executor.record import Fact, observed, unknown
from twinlens.system.nvml import open_gpus
from twinlens.system.processes import tree

_MOST_LETTERS = 300


class Command:
    """Started when it is made. Raises ExecutorFailed (TL303) where it cannot be."""

    def __init__(self, words: tuple[str, ...], output: Path) -> None:
        self.words, self._output = words, output
        # Python holds back what it prints to a file; each line is wanted when it is printed.
        self._process = Process(words, {"PYTHONUNBUFFERED": "1", **os.environ}, output)

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._process.pid,)

    def is_over(self) -> bool:
        return self._process.exit_code() is not None

    def refuse_failure(self) -> None:
        """Raises ExecutorFailed (TL302) where it has ended, and not well."""
        if (code := self._process.exit_code()) in (0, None):
            return
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        raise ExecutorFailed(
            f"{self.words[0]} {how}: {telling_line(read_log(self._output))}; the rows so far are kept, and its output "
            f"is in {self._output}",
            code="TL302",
        )

    def close(self) -> None:
        """End it and all it started."""
        self._process.stop()


def command_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """`executor.options.command`, () where there is none. Raises BadInput (TL207) for what is no list of words, for a
    program that is not there, and for a wait that its end takes the place of."""
    asked = options.get("command", ())
    words = tuple(asked) if isinstance(asked, list | tuple) else ("",)
    if not words:
        return ()
    if not all(isinstance(word, str) and "\0" not in word for word in words) or not words[0]:
        raise BadInput(
            'executor.options.command is a list of words, as ["torchrun", "train.py"]: no shell reads it', code="TL207"
        )
    if options.get("follow_s"):
        raise BadInput(
            "executor.options.follow_s means nothing to a command, whose end ends the log; leave it out", code="TL207"
        )
    if shutil.which(words[0]) is None:
        raise BadInput(f"executor.options.command: {words[0]} is not to be found here; give its path", code="TL207")
    return words


def in_words(words: tuple[str, ...]) -> str:
    """A command as one would type it, cut where it is long."""
    typed = shlex.join(words)
    return typed if len(typed) <= _MOST_LETTERS else f"{typed[:_MOST_LETTERS]}…"


def facts_of(pids: tuple[int, ...]) -> dict[str, Fact]:
    """GPUs on which the driver sees these processes or their children, and on how many nodes they say they are. No
    fact on a GPU where there is none here."""
    ours = [pid for first in pids for pid in tree(first)]
    nodes = max((_nodes(pid) for pid in ours), default=1)
    facts = {"interconnect.node_count": observed(nodes, "WORLD_SIZE and LOCAL_WORLD_SIZE")} if nodes > 1 else {}
    gpus, _ = open_gpus()
    if used := [gpu.uuid for gpu in gpus if set(gpu.process_ids() or ()).intersection(ours)]:
        return facts | {"accelerator.uuid": observed(used, "NVML: the processes of the command compute on them")}
    if gpus:
        facts["accelerator.uuid"] = unknown("the driver sees none of the command's processes on a GPU")
    return facts


def _nodes(pid: int) -> int:
    try:
        own = psutil.Process(pid).environ()
        return max(1, int(own["WORLD_SIZE"]) // int(own["LOCAL_WORLD_SIZE"]))
    except (psutil.Error, KeyError, ValueError, ZeroDivisionError):
        return 1
