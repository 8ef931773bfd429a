"""Kernel receive timestamps (SO_TIMESTAMPNS) converted to the monotonic clock.

The kernel stamps a segment as it comes in, so a client that is late still knows when the bytes were there; what lies
between the stamp and the read is the client's own lag. Stamps are on the wall clock, which may be set at any moment;
the offset between the two clocks is therefore measured again and again, and every change of it is kept.
"""

from __future__ import annotations

import socket
import struct
import time
from array import array
from bisect import bisect_left, bisect_right
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


_MOST_READS = 4096  # then times are made of them at once, so that an answer without end holds 8 bytes a chunk, not 24


class Arrivals:
    """Stamps and times of reads, in order, and the chunks that they completed."""

    __slots__ = ("_chunk_ns", "_first", "_known", "_lags", "_last_ns", "_offset", "_read_ns", "_stamps")

    def __init__(self, offset: WallOffset) -> None:
        self._offset = offset
        self._stamps, self._read_ns = bytearray(), array("q")
        self._first = self._known = 0
        self._last_ns: int | None = None
        self._chunk_ns: list[np.ndarray] = []
        self._lags: list[np.ndarray] = []

    def add(self, stamps: list[bytes], read_ns: list[int]) -> None:
        """The kernel's stamps of some reads, 16 bytes each, and when each returned, in ns."""
        self._stamps += b"".join(stamps)
        self._read_ns.extend(read_ns)

    @property
    def is_full(self) -> bool:
        """Whether it is time to settle what is there, however long the answer still is."""
        return len(self._read_ns) >= _MOST_READS

    def settle(self, reads: list[int], sent_ns: int) -> None:
        """Make times of everything added. `reads[i]`: the read, from 0, with which chunk i was complete."""
        read_ns = np.array(self._read_ns, np.int64)
        floor_ns = sent_ns if self._last_ns is None else self._last_ns
        times = arrival_ns(bytes(self._stamps), read_ns, self._offset, floor_ns)
        until = self._first + len(read_ns)
        known = bisect_left(reads, until, self._known)
        if known > self._known:
            self._chunk_ns.append(times[np.array(reads[self._known : known]) - self._first])
        self._first, self._known = until, known
        self._lags.append(read_ns - times)
        if len(times):
            self._last_ns = int(times[-1])
        self._stamps, self._read_ns = bytearray(), array("q")

    def chunk_ns(self, count: int) -> np.ndarray:
        """When each of `count` chunks was complete; those that only the end completed, with the last read."""
        late = np.full(count - self._known, self._last_ns or 0, np.int64)
        return np.concatenate([*self._chunk_ns, late])

    @property
    def last_ns(self) -> int | None:
        """When the last read settled was there; None before the first."""
        return self._last_ns

    def lags_ns(self) -> np.ndarray:
        """For each read, how long its last bytes had lain there."""
        return np.concatenate([*self._lags, np.empty(0, np.int64)])
