"""One rank: the program that torchrun starts. It connects to the run, then does what it is told until told to end."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import socket
import sys
from multiprocessing.connection import Connection
from typing import Any

from twinlens.errors import BadInput


def main() -> int:
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    with socket.socket(socket.AF_UNIX) as connecting:
        connecting.connect(os.environ["TWINLENS_RANKS"])
        pipe = Connection(connecting.detach())
    _send(pipe, {"rank": int(os.environ["RANK"]), "pid": os.getpid()})
    rank: Any = None
    while (order := _next_order(pipe)) is not None:
        try:
            if rank is None:
                from twinlens.executors.torch.parallel.rank import Rank  # torch: after the run knows that we are here

                rank = Rank(lambda phrase: _send(pipe, {"say": phrase}))
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


def _send(pipe: Connection, message: dict[str, Any]) -> None:
    pipe.send_bytes(json.dumps(message).encode())


def _next_order(pipe: Connection) -> dict[str, Any] | None:
    """None when it is time to end, or the run is gone."""
    try:
        order: dict[str, Any] = json.loads(pipe.recv_bytes())
    except (EOFError, OSError):
        return None
    return None if order["order"] == "close" else order


if __name__ == "__main__":
    sys.exit(main())
