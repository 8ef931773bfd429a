"""The state of one client during a run, and what is recorded of it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from twinlens.measurement.client.clock import Offset
from twinlens.measurement.client.messages import PlayEnded
from twinlens.record.client import LagCount
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.record.request import Request
from twinlens.schedule.lost_client import LostClientSchedule

_KEPT = ["group", "intended_ns", "end_ns", "session", "turn"]


@dataclass(slots=True)
class ClientState:
    """`heard_ns`: up to when it has reported everything. `remaining`: plays on in its place once it is lost."""

    late: LagCount = field(default_factory=LagCount)
    rows: int = 0
    heard_ns: int = 0
    ended: PlayEnded | None = None
    lost: str | None = None
    remaining: LostClientSchedule | None = None
    _reported: list[pa.Table] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.ended is not None or (self.remaining is not None and self.remaining.next_due_ns() is None)

    def report(self, rows: pa.Table) -> None:
        """It has reported these."""
        self._reported.append(rows.select(_KEPT))
        self.rows += len(rows)
        self.late.add(_late_ns(rows))

    def reported(self) -> Iterator[Request]:
        """As much of its rows as a schedule looks at, in the order in which they came; once only."""
        tables, self._reported = self._reported, []
        for table in tables:
            for row in table.to_pylist():
                rest = {"sent_ns": row["intended_ns"], "chunk_ns": (), "chunk_tokens": (), "input_tokens": 0}
                yield Request(output_tokens=0, **rest, **row)

    def loss(self, name: str) -> Finding | None:
        """How it was lost and how many requests that cost; None where it was not."""
        if self.lost is None:
            return None
        cost = self.remaining.count if self.remaining else 0
        numbers = {"how": self.lost, "after_s": max(0, self.heard_ns) / 1e9, "requests": cost}
        return Finding("client-lost", "disqualifies", name, numbers)

    def record(self, index: int, name: str, clock: Offset | None) -> dict[str, Any]:
        """All of it as plain data; times in ns."""
        late = {f"late_p{share * 100:g}_ns": self.late.quantile_ns(share) for share in (0.5, 0.99)}
        return {
            "client": index,
            "name": name,
            "rows": self.rows,
            "lost": self.lost,
            "cpu_s": self.ended.cpu_s if self.ended else None,
            "clock_offset_ns": clock.offset_ns if clock else None,
            "clock_bound_ns": clock.bound_ns if clock else None,
            **late,
            "late_max_ns": self.late.max_ns,
            **(encode(self.ended.record) if self.ended else {}),
        }


def _late_ns(rows: pa.Table) -> np.ndarray:
    due = rows.column("released_ns").combine_chunks().fill_null(-1).to_numpy()
    due = np.where(due < 0, rows.column("intended_ns").to_numpy(), due)
    return np.asarray(np.maximum(0, rows.column("sent_ns").to_numpy() - due))
