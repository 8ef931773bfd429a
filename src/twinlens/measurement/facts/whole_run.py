"""Facts that only the whole run shows: what the server's counters came to between its first and its last reading."""

from __future__ import annotations

from pathlib import Path

from twinlens.record.arrow import read_rows
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import Fact, declared, unknown
from twinlens.record.samples import SERVER_SCHEMA
from twinlens.stats.server.agreement import ServerRows

_HITS, _LOOKED_UP = "prefix_hits", "prefix_queries"


def seen_afterwards(folder: Path, facts: Facts) -> dict[str, Fact]:
    """Facts to put into the record once the rows are there; empty for a run that no server page belongs to."""
    fact = facts.executor.facts.get("decoding.cache_hit_ratio")
    if fact is None or fact.value is not None or not (folder / "server.arrows").exists():
        return {}
    samples = read_rows(folder / "server.arrows", SERVER_SCHEMA)
    return {"decoding.cache_hit_ratio": _hit_ratio(ServerRows.from_table(samples), facts)}


def _hit_ratio(rows: ServerRows, facts: Facts) -> Fact:
    why = rows.why_not(_HITS, _LOOKED_UP)
    if why is None:
        hits, looked_up = (float(steps.sum()) for steps in rows.steps(_HITS, _LOOKED_UP))
        if looked_up > 0:
            return declared(round(hits / looked_up, 4), "the server's counters of cached and looked up prompt tokens")
        why = "the server looked nothing up in a cache"
    if facts.executor.value("serving.prefix_cache") is False:
        return declared(0.0, "the server says that its prefix cache is off")
    return unknown(f"cached prompt tokens: {why}")
