"""The floor of a burst: one send on each of 64 and 256 established loopback sockets, in C and in a bare Python loop.

    python benchmarks/load_generator/burst.py [--sockets 64,256] [--bursts 200] [--repeats 5]

The reader is another process, blocked in epoll on a core of its own. Bursts are 10 ms apart, as steps of an engine are,
so caches go cold between them. Printed: µs until half and all of the sends have returned, p50 of the bursts, the
smallest and the median of the repeats.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from run import head, leave_a_core, line, on_the_spare_core  # noqa: E402

BYTES = 900


def in_python(port: int, sockets: int, bursts: int) -> list[tuple[int, int]]:
    """How long the first half and the whole of each burst took, in ns."""
    message, took = bytes(BYTES), []
    open_ones = [socket.create_connection(("127.0.0.1", port)) for _ in range(sockets)]
    for one in open_ones:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    first, second = ([one.send for one in part] for part in (open_ones[: sockets // 2], open_ones[sockets // 2 :]))
    now_ns = time.monotonic_ns
    for _ in range(bursts):
        time.sleep(0.01)
        begin_ns = now_ns()
        for send in first:
            send(message)
        half_ns = now_ns()
        for send in second:
            send(message)
        took.append((half_ns - begin_ns, now_ns() - begin_ns))
    for one in open_ones:
        one.close()
    return took


def in_c(program: Path, port: int, sockets: int, bursts: int) -> list[tuple[int, int]]:
    """The same of the C program."""
    words = [program, "send", *map(str, (port, sockets, BYTES, bursts))]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [(int(half), int(whole)) for half, whole in map(str.split, out.splitlines())]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sockets", default="64,256")
    parser.add_argument("--bursts", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    leave_a_core()
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "burst"
        subprocess.run(["cc", "-O2", "-o", program, HERE / "burst.c"], check=True)
        head("sends", "sockets", "half sent, µs: least / median", "all sent", "µs per send")
        for sockets in map(int, asked.sockets.split(",")):
            found: dict[str, list[tuple[float, float]]] = {"C": [], "Python": []}
            for _ in range(asked.repeats):
                for client, times in found.items():
                    with subprocess.Popen(
                        on_the_spare_core([str(program), "listen"]), stdout=subprocess.PIPE, text=True
                    ) as reader:
                        assert reader.stdout is not None
                        port = int(reader.stdout.readline())
                        send = in_python if client == "Python" else lambda *words: in_c(program, *words)
                        took = send(port, sockets, asked.bursts)
                    times.append(tuple(statistics.median(part) / 1e3 for part in zip(*took, strict=True)))
            for client, times in found.items():
                halves, wholes = zip(*times, strict=True)
                cells = [f"{min(part):.0f} / {statistics.median(part):.0f}" for part in (halves, wholes)]
                line(client, sockets, *cells, f"{min(wholes) / sockets:.1f}")


if __name__ == "__main__":
    main()
