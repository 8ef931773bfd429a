"""Arrival times of the reads of one exchange: kept as bytes while it runs, converted to times when it is over."""

from __future__ import annotations

from array import array
from bisect import bisect_left

import numpy as np

from twinlens.executors.http_client.timing.timestamp import WallOffset, arrival_ns

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
