"""Kernel receive timestamps (SO_TIMESTAMPNS) converted to the monotonic clock.

The kernel stamps a segment as it comes in, so a client that is late still knows when the bytes were there; what lies
between the stamp and the read is the client's own lag. Stamps are on the wall clock, which may be set at any moment;
the offset between the two clocks is therefore measured again and again, and every change of it is kept.
"""

from __future__ import annotations

import socket
import struct
import time
from bisect import bisect_right
from collections.abc import Callable

import numpy as np

# Python 3.11 has no name for it; 35 is its number on Linux but for a few old architectures.
SO_TIMESTAMPNS = int(getattr(socket, "SO_TIMESTAMPNS", 35))
ANCILLARY_BYTES = socket.CMSG_SPACE(16) if hasattr(socket, "CMSG_SPACE") else 64
NO_STAMP = bytes(16)
_STEP_NS = 20_000
_BRACKETS = 8
_REMEASURE_NS = 10_000_000


def ask_for_stamps(sock: socket.socket) -> bool:
    """Have the kernel stamp what this socket receives; False where it does not (another system than Linux)."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        return struct.calcsize("qq") == 16 and sock.getsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS) == 1
    except OSError:
        return False


def stamp_keeper() -> socket.socket:
    """A socket that only has stamps on: the kernel stamps packets while any socket asks for it, and starts late."""
    keeper = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ask_for_stamps(keeper)
    return keeper


class WallOffset:
    """Wall clock minus monotonic clock in ns, with the moments at which it changed.

    Both clocks are slewed by the same rate corrections on Linux, so the offset stands still until somebody sets the
    clock. `history` starts with the first offset; `steps` counts changes larger than 20 µs.
    """

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall_ns, self._monotonic_ns = wall_ns, monotonic_ns
        first, _ = self._measure()
        self.since_ns = [0]
        self.offset_ns = [first]
        self.next_ns = monotonic_ns() + _REMEASURE_NS

    @property
    def steps(self) -> int:
        """How often the wall clock was set while we looked."""
        return len(self.offset_ns) - 1

    def watch(self, now_ns: int) -> None:
        """Measure again; to be called once it is `next_ns`, 10 ms after the last time."""
        offset, width = self._measure()
        # A measurement that was itself interrupted proves nothing: its width bounds its error.
        if abs(offset - self.offset_ns[-1]) > max(_STEP_NS, width):
            self.since_ns.append(now_ns)
            self.offset_ns.append(offset)
        self.next_ns = now_ns + _REMEASURE_NS

    def candidates(self, from_ns: int, to_ns: int) -> tuple[int, ...]:
        """The offsets that may hold for stamps read between two moments: those in force, and the one before."""
        first = max(0, bisect_right(self.since_ns, from_ns) - 2)
        # A step shows up to 10 ms after it happened, so one found just after `to_ns` may hold already.
        last = bisect_right(self.since_ns, to_ns + 2 * _REMEASURE_NS)
        return tuple(self.offset_ns[first:last])

    def _measure(self) -> tuple[int, int]:
        best, width = 0, 1 << 62
        for _ in range(_BRACKETS):
            before, wall, after = self._monotonic_ns(), self._wall_ns(), self._monotonic_ns()
            if after - before < width:
                best, width = wall - (before + after) // 2, after - before
        return best, width


def arrival_ns(stamps: bytes, read_ns: np.ndarray, offset: WallOffset, floor_ns: int) -> np.ndarray:
    """When each read's last segment arrived, int64 on the monotonic clock; shape (reads,).

    `stamps`: 16 bytes a read, seconds and nanoseconds (all zero: none). `read_ns`: when each read returned.
    Of the offsets that may hold, the one that leaves the smallest lag that is not negative is true: a stamp lies
    before its read, and a wrong offset shifts it by a whole step. Without a stamp, the read itself counts. Times never
    fall, and none lies before `floor_ns`, when the request was sent.
    """
    read = read_ns
    if not len(read):
        return read
    parts = np.frombuffer(stamps, dtype=np.int64).reshape(-1, 2)
    wall = parts[:, 0] * 1_000_000_000 + parts[:, 1]
    found = offset.candidates(int(read[0]), int(read[-1]))
    arrived = wall - found[-1]
    if len(found) > 1:
        lags = read - (wall - np.array(found)[:, None])
        lags[lags < -_STEP_NS] = 1 << 62
        best = lags.min(axis=0)
        arrived = np.where(best < 1 << 61, read - best, read)
    if NO_STAMP in stamps:
        arrived = np.where(wall == 0, read, arrived)
    arrived = np.minimum(arrived, read)
    arrived[0] = max(arrived[0], floor_ns)
    return np.maximum.accumulate(arrived)
