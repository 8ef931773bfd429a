"""One rank: the program that torchrun starts. It connects to the run, then does what it is told until told to end."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import socket
import sys
from multiprocessing.connection import Connection
from pkgutil import resolve_name
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.protocol import Say
from twinlens.system.processes import this_machine


def main(opens: str = "") -> int:
    """Obey until told to end; the exit code. `opens`: the place of what opens a run, where torch's own does not."""
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    pipe = _connected(os.environ["TWINLENS_RANKS"])
    key = os.environ.pop("TWINLENS_RANKS_KEY", "")
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    greeting = {"rank": int(os.environ["RANK"]), "pid": os.getpid(), "machine": this_machine(), "key": key}
    _send(pipe, greeting | {"attempt": attempt})
    rank: Any = None
    while (order := _next_order(pipe)) is not None:
        try:
            if rank is None:  # torch: after the run knows that we are here
                rank = _rank(lambda phrase: _send(pipe, {"say": phrase}), opens)
            _send(pipe, {"answer": rank.obey(order)})
        except BadInput as error:
            _send(pipe, {"bad": str(error), "code": error.code})
            return 2
        except Exception as error:  # the boundary between a rank and its run, which says it
            _send(pipe, {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:300]})
            raise
    if rank is not None:
        rank.close()
    return 0


def _connected(address: str) -> Connection:
    if not address.startswith("tcp://"):
        with socket.socket(socket.AF_UNIX) as connecting:
            connecting.connect(address)
            return Connection(connecting.detach())
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port))) as connecting:
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Connection(connecting.detach())


def _send(pipe: Connection, message: dict[str, Any]) -> None:
    pipe.send_bytes(json.dumps(message).encode())


def _next_order(pipe: Connection) -> dict[str, Any] | None:
    """None when it is time to end, or the run is gone."""
    try:
        order: dict[str, Any] = json.loads(pipe.recv_bytes())
    except (EOFError, OSError):
        return None
    return None if order["order"] == "close" else order


def _rank(say: Say, opens: str) -> Any:
    from twinlens.executors.torch.parallel.rank import Rank

    return Rank(say, resolve_name(opens) if opens else None)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
