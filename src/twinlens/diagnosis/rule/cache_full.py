"""The KV cache of the server was full: requests wait for memory, not for arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.phase import known
from twinlens.record.finding import Finding

_FULL = 0.95


def cache_full(seen: Evidence) -> Iterable[Finding]:
    """Where the server says that its cache was full, or that it put requests back to make room."""
    use, preempted = known(seen.metrics, "server_kv_use_max"), known(seen.metrics, "server_preemptions")
    if preempted or (use or 0.0) >= _FULL:
        evidence = {name: seen.metrics[name] for name in ("server_kv_use_max", "server_preemptions")
                    if name in seen.metrics}  # fmt: skip
        yield Finding("cache-full", "warns", "", {"kv_use": use, "preemptions": preempted}, evidence)
