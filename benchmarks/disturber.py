"""A neighbour: `python -m benchmarks.disturber BUSY_S IDLE_S SEED` keeps one processor busy in random bursts.

Bursts and pauses are exponential with these means. It ends when its stdin does, or after an hour.
"""

from __future__ import annotations

import random
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_SPIN_S = 0.005
_MOST_S = 3600.0


@contextmanager
def disturbed(busy_s: float = 3.0, idle_s: float = 3.0, seed: int = 0) -> Iterator[None]:
    """Meanwhile a process of its own disturbs this machine."""
    words = [sys.executable, "-m", "benchmarks.disturber", f"{busy_s:g}", f"{idle_s:g}", str(seed)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as neighbour:
        try:
            yield
        finally:
            assert neighbour.stdin is not None
            neighbour.stdin.close()
            neighbour.wait(10)


def main(busy_s: float, idle_s: float, seed: int) -> None:
    drawn, over_s = random.Random(seed), time.monotonic() + _MOST_S
    while time.monotonic() < over_s:
        end_s = time.monotonic() + drawn.expovariate(1 / busy_s)
        while (now_s := time.monotonic()) < end_s:
            while time.monotonic() < now_s + _SPIN_S:
                pass
            if _ended(0.0):
                return
        if _ended(drawn.expovariate(1 / idle_s)):
            return


def _ended(wait_s: float) -> bool:
    """Whether whoever started this is gone, waiting so long for it."""
    return bool(select.select([sys.stdin], [], [], wait_s)[0])


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
