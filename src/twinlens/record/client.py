"""The client's own record: what a reader needs to decide whether the client was the limit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from twinlens.record.codec import UNWRITTEN, by_fields, reads
from twinlens.record.finding import Finding

_PER_OCTAVE = 8
_BUCKETS = 64 * _PER_OCTAVE
_AT_ONCE = 64


class LagCount:
    """A histogram of lags in ns: eight buckets an octave, so a quantile is right within 9 % and memory stands still."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, np.int64)
        self._max_ns = 0
        self._waiting: list[np.ndarray] = []

    def add(self, lags_ns: np.ndarray) -> None:
        """Count lags in nanoseconds."""
        self._waiting.append(lags_ns)
        if len(self._waiting) >= _AT_ONCE:
            self._count()

    @classmethod
    def merged(cls, parts: Iterable[LagCount]) -> Self:
        """One count of what several counted."""
        whole = cls()
        for part in parts:
            part._count()
            whole._counts += part._counts
            whole._max_ns = max(whole._max_ns, part._max_ns)
        return whole

    @property
    def max_ns(self) -> int | None:
        """The largest; None without lags."""
        self._count()
        return self._max_ns if self._counts.any() else None

    def quantile_ns(self, share: float) -> int | None:
        """The upper edge of the bucket in which the quantile lies, and never above the maximum; None without lags."""
        self._count()
        total = int(self._counts.sum())
        if not total:
            return None
        bucket = int(np.searchsorted(np.cumsum(self._counts), share * total))
        return min(self._max_ns, round(2 ** ((bucket + 1) / _PER_OCTAVE)))

    def _count(self) -> None:
        lags_ns = np.concatenate([*self._waiting, np.empty(0, np.int64)])
        self._waiting = []
        if len(lags_ns):
            bucket = np.log2(np.maximum(lags_ns, 1)) * _PER_OCTAVE
            self._counts = self._counts + np.bincount(bucket.astype(np.int64), minlength=_BUCKETS)
            self._max_ns = max(self._max_ns, int(lags_ns.max()))


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """`stamps`: whose clock reading a chunk's time is. `merged_reads`: reads that completed several chunks.

    `retries`: requests sent again because the server had just closed an idle connection. `clock_steps`: how often the
    wall clock was set meanwhile. `gather_ns`: how long, at most, the client let reads wait on purpose, to take several
    at one wake-up; it is part of the lags. `lags`: how long bytes lay in this machine before they were read.
    """

    stamps: Literal["kernel", "client"]
    reads: int
    merged_reads: int
    connects: int
    retries: int
    clock_steps: int
    gather_ns: int = 0
    lags: LagCount = field(default_factory=LagCount, metadata=UNWRITTEN)

    def __json__(self) -> Mapping[str, Any]:
        """Counts, and the lag's quantiles in ns."""
        lags = {f"lag_p{share * 100:g}_ns": self.lags.quantile_ns(share) for share in (0.5, 0.99, 0.999)}
        return by_fields(self) | lags | {"lag_max_ns": self.lags.max_ns}

    @classmethod
    def merged(cls, parts: Sequence[ClientRecord]) -> Self:
        """Several clients as one. Its stamps are the kernel's only if all are; all see the same steps of one clock."""
        return cls(
            stamps="kernel" if parts and all(part.stamps == "kernel" for part in parts) else "client",
            reads=sum(part.reads for part in parts),
            merged_reads=sum(part.merged_reads for part in parts),
            connects=sum(part.connects for part in parts),
            retries=sum(part.retries for part in parts),
            clock_steps=max((part.clock_steps for part in parts), default=0),
            gather_ns=max((part.gather_ns for part in parts), default=0),
            lags=LagCount.merged(part.lags for part in parts),
        )


@dataclass(frozen=True, slots=True)
class ClientSection:
    """`client` in run.json: what a `ClientRecord` counted, and what is known of several clients together.

    `lost`: a finding for each client that was lost. `clock_bound_ns`: how well the clocks of clients on other machines
    are known. `clients`: each one's own counts. `clients_why`: how their number was found.
    """

    stamps: Literal["kernel", "client"] = "client"
    reads: int = 0
    merged_reads: int = 0
    connects: int = 0
    retries: int = 0
    clock_steps: int = 0
    gather_ns: int = 0
    lost: tuple[Finding, ...] = ()
    clock_bound_ns: int | None = None
    clients: tuple[Mapping[str, Any], ...] = ()
    clients_why: str | None = None


def _possible(data: Mapping[str, Any]) -> Mapping[str, Any]:
    ceiling = data.get("ceiling_tokens_per_s")
    if isinstance(ceiling, int | float) and not 0 < ceiling < math.inf:
        raise ValueError(f"the client's ceiling is {ceiling:g} tokens/s; it must be above 0")
    return data


@reads(_possible)
@dataclass(frozen=True, slots=True)
class Calibration:
    """The client's certificate: what it did against a server that costs nothing, on this machine, before the run.

    `ceiling_tokens_per_s`: the most it took in; `added_latency_s`: median of measured less true time to first token;
    `lag_s_p99`: how late it sent at this rate. `clients`: how many there were, all at once.
    """

    ceiling_tokens_per_s: float
    added_latency_s: float
    lag_s_p99: float
    clients: int = 1
