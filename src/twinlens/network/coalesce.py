"""The time that the loop waits for more reads before it takes them: one wake-up costs more than one read."""

from __future__ import annotations

TICK_NS = 10_000_000
_MOST_NS = 500_000
_LEAST_READS_PER_NS = 4e-6
_GAP_SHARE = 0.1


class Coalescing:
    """`wait_ns`: how long to wait now; `most_ns`: the longest there was; `next_ns`: when to choose again.

    Where the kernel stamps what comes, a read may wait without harm, as long as the next chunk of its stream does not
    join it: half a millisecond at most, and a tenth of the time between the reads of one stream. Below four reads a
    millisecond there is nothing to gather.
    """

    __slots__ = ("_reads", "most_ns", "next_ns", "wait_ns")

    def __init__(self) -> None:
        self.wait_ns = self.most_ns = self.next_ns = self._reads = 0

    def choose(self, now_ns: int, reads: int, streams: int, *, is_stamped: bool) -> None:
        """To be called every 10 ms. `reads`: so far; `streams`: under way; `is_stamped`: all of them, by the kernel."""
        per_ns = (reads - self._reads) / (now_ns - self.next_ns + TICK_NS)
        self.next_ns, self._reads = now_ns + TICK_NS, reads
        if per_ns < _LEAST_READS_PER_NS or not is_stamped:
            self.wait_ns = 0
        else:
            self.wait_ns = min(_MOST_NS, int(_GAP_SHARE * streams / per_ns))
            self.most_ns = max(self.most_ns, self.wait_ns)
