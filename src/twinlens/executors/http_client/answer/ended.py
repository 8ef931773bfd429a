"""An exchange that is over: everything the client knows of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from twinlens.executors.http_client.answer.events import Answer
from twinlens.record.request import Loss


@dataclass(frozen=True, slots=True)
class Ended:
    """An exchange that is over. Times are ns of the monotonic clock; `sent_ns` is 0 where nothing was ever sent.

    `fault`: None, or what went wrong on the wire; `loss`: how the connection was lost, where that is it.
    `chunk_ns`: when each chunk with tokens was complete. `over_ns`: when its last byte was there, which may be long
    after the last token; 0 where nothing came.
    `lags_ns`: for each read, how long its bytes had lain there. `merged`: reads that completed several chunks.
    """

    key: int
    sent_ns: int
    end_ns: int
    status: int
    headers: dict[str, str]
    fault: str | None
    answer: Answer
    body: bytes
    chunk_ns: np.ndarray
    lags_ns: np.ndarray
    merged: int
    loss: Loss | None = None
    over_ns: int = 0


def merged_reads(reads: list[int]) -> int:
    """How many reads completed several chunks."""
    if len(set(reads)) == len(reads):
        return 0
    return sum(count > 1 for count in Counter(reads).values())
