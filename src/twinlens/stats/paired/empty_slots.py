"""The share of slot time left empty in a closed loop's slices, as each slice is drained before the next turn."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from twinlens.record.finding import Finding
from twinlens.record.request import Requests

LEAST_EMPTY = 0.01
MOST_EMPTY = 0.10  # as much as may hide in a ranked rate (docs/decisions/0015): above it the note is a warning


def empty_slots(requests: Requests, concurrency: int) -> Iterable[Finding]:
    """A note where a closed loop was played in slices, a warning where its slots stood empty for a tenth of them.

    The share is that of slot-seconds: 1 - (time that requests were under way) / (concurrency x time of the slices).
    """
    rows = requests.slice >= 0
    if not rows.any():
        return
    _, place = np.unique(requests.slice[rows], return_inverse=True)
    begin, end = requests.intended_ns[rows], requests.end_ns[rows]
    first = np.full(place.max() + 1, np.iinfo(np.int64).max)
    last = np.full(place.max() + 1, np.iinfo(np.int64).min)
    np.minimum.at(first, place, begin)
    np.maximum.at(last, place, end)
    slot_ns = concurrency * float((last - first).sum())
    if slot_ns <= 0:
        return
    share = max(0.0, 1 - float((end - begin).sum()) / slot_ns)
    numbers = {"share": share, "slots": concurrency, "slices": int(first.size)}
    if share >= LEAST_EMPTY:
        yield Finding("empty-slots", "warns" if share > MOST_EMPTY else "notes", "", numbers)
