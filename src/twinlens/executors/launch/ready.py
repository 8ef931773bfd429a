"""Wait until a started server answers: with a limit, with progress in words, and one sentence if it fails."""

from __future__ import annotations

import http.client
import socket
import time
from pathlib import Path
from typing import Any

import psutil

from twinlens.errors import ExecutorFailed
from twinlens.executors.launch.process import Process
from twinlens.executors.protocol import Say
from twinlens.network.page import PageClient
from twinlens.system.document import json_of
from twinlens.system.log import read_log, telling_line
from twinlens.system.processes import tree

_PERIOD_S, _PATIENCE_S = 0.1, 5.0
_LONG_PATIENCE_S = 30.0  # for what is asked once, of a server that is up
_FIRST_SAY_S, _RAREST_SAY_S = 1.0, 30.0
_MOST_BYTES = 8 * 2**20


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def is_taken(port: int) -> bool:
    """Whether somebody listens on a port of the loopback interface now."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return True
    return False


def listens(pid: int, port: int) -> bool:
    """Whether a process of this tree listens on the port; True where the system does not say."""
    try:
        return any(
            connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
            for each in tree(pid)
            for connection in psutil.Process(each).net_connections(kind="tcp")
        )
    except (psutil.Error, OSError):
        return True


def page(port: int, path: str, patience_s: float = _PATIENCE_S) -> tuple[int, str]:
    """Status (0: no answer) and text of one page of a server on this machine."""
    client = PageClient("127.0.0.1", port)
    try:
        got = client.ask(path, {}, patience_s, most_bytes=_MOST_BYTES)
        return got.status, got.body.decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        client.close()


def pages(port: int, paths: tuple[str, ...], patience_s: float = _LONG_PATIENCE_S) -> tuple[dict[str, Any], list[str]]:
    """The JSON of those pages that have some, and the paths that did not answer in time: a busy machine is slow."""
    answered, silent = {}, []
    for path in paths:
        status, text = page(port, path, patience_s)
        if not status:
            silent.append(path)
        elif status == 200:
            try:
                answered[path] = json_of(text)
            except ValueError:
                continue
    return answered, silent


def wait_until_ready(process: Process, name: str, port: int, path: str, log: Path, limit_s: float, say: Say) -> float:
    """Seconds until `path` answered 200. Raises ExecutorFailed: TL303 when it ended before, TL304 after `limit_s`."""
    begun_s, say_at_s = time.monotonic(), _FIRST_SAY_S
    while True:
        if page(port, path)[0] == 200:
            if not listens(process.pid, port):
                raise ExecutorFailed(
                    f"port {port} is in use by another program, so {name} cannot listen on it; end that program, or "
                    "measure again: each start takes another port",
                    code="TL303",
                )
            return time.monotonic() - begun_s
        _refuse_ended(process, name, log, "before it was ready")
        waited_s = time.monotonic() - begun_s
        if waited_s > limit_s:
            raise ExecutorFailed(
                f"{name} was not ready after {limit_s:g} s (executor.options.start_timeout_s); the last of its log "
                f"{log}: {telling_line(read_log(log))}",
                code="TL304",
            )
        if waited_s > say_at_s:  # ever more rarely: where every phrase is a line, minutes are not hundreds of them
            say(f"{name} is starting, {waited_s:.0f} s")
            say_at_s += min(say_at_s, _RAREST_SAY_S)
        time.sleep(_PERIOD_S)


def refuse_gone(process: Process, name: str, port: int, path: str, log: Path) -> None:
    """Raises ExecutorFailed (TL303) for a server that was ready and ended at its first requests."""
    until_s = time.monotonic() + _PATIENCE_S
    while page(port, path)[0] == 0 and time.monotonic() < until_s:  # its end may take a moment to be seen
        _refuse_ended(process, name, log, "at its first requests")
        time.sleep(_PERIOD_S)


def _refuse_ended(process: Process, name: str, log: Path, moment: str) -> None:
    code = process.exit_code()
    if code is not None:
        line = telling_line(read_log(log))
        raise ExecutorFailed(f"{name} {_how(code)} {moment}: {line}; its log is {log}", code="TL303")


def _how(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
