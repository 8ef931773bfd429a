"""How the client itself did: what a reader needs to know whether it was the limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

_PER_OCTAVE = 8
_BUCKETS = 64 * _PER_OCTAVE


class LagCount:
    """A histogram of lags: eight buckets an octave, so a quantile is right within 9 per cent, and memory stands still."""

    def __init__(self) -> None:
        self.counts = np.zeros(_BUCKETS, np.int64)
        self.max_ns: int | None = None

    def add(self, lags_ns: np.ndarray) -> None:
        """Count lags in nanoseconds."""
        if not len(lags_ns):
            return
        bucket = np.log2(np.maximum(lags_ns, 1)) * _PER_OCTAVE
        self.counts += np.bincount(bucket.astype(np.int64), minlength=_BUCKETS)
        self.max_ns = max(self.max_ns or 0, int(lags_ns.max()))

    def quantile_ns(self, share: float) -> int | None:
        """The upper edge of the bucket in which the quantile lies, and never above the maximum; None without lags."""
        total = int(self.counts.sum())
        if not total or self.max_ns is None:
            return None
        bucket = int(np.searchsorted(np.cumsum(self.counts), share * total))
        return min(self.max_ns, round(2 ** ((bucket + 1) / _PER_OCTAVE)))


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """`stamps`: whose clock reading a chunk's time is. `merged_reads`: reads that completed several chunks.

    `retries`: requests sent again because the server had just closed an idle connection. `clock_steps`: how often the
    wall clock was set meanwhile. `lags`: how long bytes lay in this machine before they were read.
    """

    stamps: Literal["kernel", "client"]
    reads: int
    merged_reads: int
    connects: int
    retries: int
    clock_steps: int
    lags: LagCount = field(default_factory=LagCount)

    def to_json(self) -> dict[str, Any]:
        """Counts, and the lag's quantiles in ns."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "lags"}
        lags = {f"lag_p{share * 100:g}_ns": self.lags.quantile_ns(share) for share in (0.5, 0.99, 0.999)}
        return plain | lags | {"lag_max_ns": self.lags.max_ns}
