"""Several processes behind one port: each accepts for itself (SO_REUSEPORT), and one that dies is started again."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from twinlens.gateway.launching import Up

_LOOK_S = 0.2
_PAUSE_S = 1.0
_END_S = 10.0


def run_workers(config: Path, port: int, ups: Mapping[str, Up], count: int, say: Callable[[str], None]) -> None:
    """Until this process is interrupted: its workers end then, each with the answers that it has begun."""
    launched = json.dumps({name: [up.url, up.model] for name, up in ups.items()})

    def start(number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "twinlens.gateway.worker", str(config), str(port), launched, str(number)]
        return subprocess.Popen(command, start_new_session=True)

    workers = [start(number) for number in range(count)]
    try:
        while True:
            time.sleep(_LOOK_S)
            for number, worker in enumerate(workers):
                if worker.poll() is not None:
                    say(f"process {number} of the gateway ended with {worker.returncode}; it is started again")
                    time.sleep(_PAUSE_S)
                    workers[number] = start(number)
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            try:
                worker.wait(_END_S)
            except subprocess.TimeoutExpired:
                worker.kill()
