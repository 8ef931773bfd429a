"""A server's process as Twinlens holds it: started through the guard, ended surely, asked whether it lives."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from twinlens.errors import ExecutorFailed
from twinlens.executors.launch.options import Settings
from twinlens.system.home_folder import cache_folder

_GUARD = Path(__file__).with_name("watchdog.py")
GRACE_S = 10.0
"""The time in which a server may end by itself after SIGTERM."""


class Process:
    """One command in a process group of its own, its output in `log`. `pid` is the command's, not the guard's."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        grace_s: float = GRACE_S,
        cpus: Sequence[int] = (),
    ) -> None:
        """Start it. `environment` is the whole of it; `cpus`: the processors it is kept to, if any.

        Raises ExecutorFailed (TL303) where it cannot be started.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        self._exit: int | None = None
        self._grace_s = grace_s
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), str(log), str(grace_s), ",".join(map(str, cpus)), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,  # a terminal's interrupt is for Twinlens, which then ends the server in order
        )
        message = self._listen()
        if "pid" not in message:
            self.stop()
            raise ExecutorFailed(f"{command[0]} cannot be started: {message.get('failed', 'no answer')}", code="TL303")
        self.pid = int(str(message["pid"]))

    def _listen(self) -> dict[str, object]:
        assert self._guard.stdout is not None
        line = self._guard.stdout.readline()
        return json.loads(line) if line else {}

    def exit_code(self) -> int | None:
        """How the command ended (negative: by that signal); None while it, or something it left, still runs."""
        if self._exit is None and self._guard.poll() is not None:
            message = self._listen()
            self._exit = int(str(message.get("exit", -9)))
        return self._exit

    def stop(self) -> None:
        """End it and everything it started; may be called again. Returns when nothing is left."""
        assert self._guard.stdin is not None
        with contextlib.suppress(OSError):
            self._guard.stdin.close()
        try:
            self._guard.wait(self._grace_s + 20.0)
        except subprocess.TimeoutExpired:
            self._guard.kill()  # the kernel ends the server with it
            self._guard.wait()
        self.exit_code()
        if self._guard.stdout is not None:
            self._guard.stdout.close()


# The environment that a launched server is given.


def environment_of(settings: Settings, chosen: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a server: ours, what was chosen for it, and no hub but an empty one."""
    inherited = dict(os.environ)
    if settings.python != sys.executable:  # another Python finds its own packages
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
            inherited.pop(name, None)
    hub = cache_folder() / "hub"
    hub.mkdir(parents=True, exist_ok=True)
    return {**inherited, "HF_HUB_CACHE": str(hub), **chosen}
