"""Of each pair the smallest system that meets the targets, and of those the fastest."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinlens.planning.fit.degree import COUNTS, MOST_DEVICES

_WHOLE = np.isin(np.arange(MOST_DEVICES + 1), COUNTS)
"""By number of devices: a table is read faster than a set is searched, for each of many thousand layouts."""


def smallest(pair: Any, devices: Any, rate: Any, meets: Any) -> dict[int, int]:
    """Row by pair: the fewest devices first, as they are sold, then the highest rate."""
    rows = np.nonzero(meets)[0]
    order = rows[np.lexsort((-rate[rows], devices[rows], pair[rows]))]
    _, first = np.unique(pair[order], return_index=True)
    return {int(pair[row]): int(row) for row in order[first]}


def whole(devices: Any) -> Any:
    """Counts that layouts come in: 1, 2, 4 and 8 devices, then whole nodes of 8."""
    return _WHOLE[np.asarray(devices, dtype=np.intp)]


def least_of(rows: Any, values: Any) -> int:
    """Of some rows, at least one, that with the least value."""
    places = np.nonzero(rows)[0]
    return int(places[np.argmin(values[places])])
