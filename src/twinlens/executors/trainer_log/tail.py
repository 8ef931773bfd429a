"""The lines of a log while it is written, in bounded reads, with the time at which each was there."""

from __future__ import annotations

import codecs
import io
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

POLL_S = 0.05
_MOST_BYTES = 2**18
_LONGEST = 20_000
_MOST_READS = 4096


class Tail:
    """`path` may not be there yet. `begin`: the byte from which it is read. `is_over`: nothing more is being written,
    so that a read which gives nothing is the last."""

    def __init__(self, path: Path, begin: int, is_over: Callable[[], bool]) -> None:
        self._path, self._at, self._is_over = path, begin, is_over
        self._reads = deque[tuple[int, int]](maxlen=_MOST_READS)
        self.heard_ns = time.monotonic_ns()
        self.is_cut = False

    def lines(self) -> Iterator[str]:
        """Whole lines as they come, of at most 20,000 letters; waits for the next one. A last line without its end is
        left out (`is_cut`), for it may be cut inside a number."""
        decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
        count, rest = 0, ""
        while True:
            over = self._is_over()  # before the read: what was written until then is in it
            if data := self._read():
                *whole, rest = (rest + decoder.decode(data)).split("\n")
                rest = rest[:_LONGEST]
                self.heard_ns = time.monotonic_ns()
                self._reads.append((count, self.heard_ns))
                count += len(whole)
                yield from (f"{line[:_LONGEST]}\n" for line in whole)
            elif over:
                self.is_cut = bool(rest)
                return
            else:
                time.sleep(POLL_S)

    def came_ns(self, line: int) -> int:
        """When a line was read, on the monotonic clock: at most `POLL_S` after it was whole."""
        return next((at_ns for first, at_ns in reversed(self._reads) if first <= line), self._reads[0][1])

    def _read(self) -> bytes:
        try:
            if not self._path.is_file():  # a pipe would hold us up for ever
                return b""
            with self._path.open("rb") as file:
                if file.seek(0, io.SEEK_END) < self._at:  # begun again
                    self._at = 0
                file.seek(self._at)
                data = file.read(_MOST_BYTES)
        except OSError:
            return b""
        self._at += len(data)
        return data
