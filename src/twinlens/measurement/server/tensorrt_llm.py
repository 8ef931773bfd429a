"""The page that only TensorRT-LLM has: JSON, one object for every step of the engine since somebody last read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.measurement.server.columns import Columns, typed


class IterationStats:
    """Sums up what was read, as reading empties the page: totals since the first reading.

    `iter` numbers the steps of the engine; those that fell out of the server's queue are in it as well.
    """

    def __init__(self) -> None:
        self._totals: Columns = {}
        self._last: Columns = {}

    def add(self, steps: Any) -> Columns:
        """Take one page, already decoded. Raises ValueError for anything but a list of objects."""
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise ValueError("not a list of iteration statistics")
        for step in steps:
            self._take(step)
        return typed(self._totals | self._last)

    def _take(self, step: Mapping[str, Any]) -> None:
        batch, cache, draft = (
            _part(step, key) for key in ("inflightBatchingStats", "kvCacheStats", "specDecodingStats")
        )
        for column, of, key in (
            ("iteration_tokens", batch, "numCtxTokens"),
            ("iteration_tokens", batch, "numGenRequests"),
            ("finished", step, "numCompletedRequests"),
            ("draft_tokens", draft, "numDraftTokens"),
            ("accepted_tokens", draft, "numAcceptedTokens"),
        ):
            if (value := _number(of.get(key))) is not None:
                self._totals[column] = self._totals.get(column, 0) + value
        hits, misses = _number(cache.get("reusedBlocks")), _number(cache.get("missedBlocks"))
        used, most = _number(cache.get("usedNumBlocks")), _number(cache.get("maxNumBlocks"))
        number = _number(step.get("iter"))
        latest = {
            "running": _number(step.get("numActiveRequests")),
            "waiting": _number(step.get("numQueuedRequests")),
            "slots": _number(step.get("maxNumActiveRequests")) or None,
            "iterations": None if number is None else number + 1,
            "prefix_hits": hits,
            "prefix_queries": None if hits is None or misses is None else hits + misses,
            "kv_use": used / most if used is not None and most else None,
        }
        self._last |= {column: value for column, value in latest.items() if value is not None}


def _part(step: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = step.get(key)
    return part if isinstance(part, dict) else {}


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
