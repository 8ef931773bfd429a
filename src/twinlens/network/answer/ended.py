"""An exchange that is over: everything the client knows of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from twinlens.network.answer.events import Answer
from twinlens.record.request import Loss, RequestOutcome

_REFUSED = (429, 503)
_MOST_WORDS = 200


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


def unanswered(ended: Ended) -> tuple[RequestOutcome, str] | None:
    """Refused or failed, and why; None where there is an answer to look into."""
    if ended.fault is not None:
        return ("refused" if ended.loss == "never open" else "failed"), ended.fault
    if ended.status != 200:
        return ("refused" if ended.status in _REFUSED else "failed"), _http_error(ended)
    return ("failed", ended.answer.error) if ended.answer.error else None


def _http_error(ended: Ended) -> str:
    after = ended.headers.get("retry-after")
    words = " ".join(ended.body[:2000].decode("utf-8", "replace").split())[:_MOST_WORDS]
    return f"HTTP {ended.status}" + (f", Retry-After {after[:40]}" if after else "") + (f": {words}" if words else "")
