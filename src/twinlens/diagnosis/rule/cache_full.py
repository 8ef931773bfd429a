"""The KV cache of the server was full: requests wait for memory, not for arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.diagnosis.evidence import Evidence, Rule
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


RULE = Rule(
    code="cache-full",
    find=cache_full,
    says="The KV cache of the server was full, or the server preempted requests to make room.",
    why=(
        "A preempted request computes its prompt again. Latency rises by jumps, and above that load throughput falls."
    ),
    evidence=(
        "`server_kv_use_max` is at least 95 %, or `server_preemptions` is above 0, both read from the metrics"
        " page of the server."
    ),
    lies=(
        "A cache may be kept full of old prefixes, which are dropped when room is needed. Preemptions decide,"
        " where they are counted."
    ),
    remedy="Give the KV cache more memory, store it narrower, shorten contexts, or offer less.",
    falsifier=(
        "Measure at half the load. If preemptions stay, or requests queue as long without them, the cache was"
        " not the cause."
    ),
    sources=(
        'Kwon et al., "Efficient memory management for large language model serving with PagedAttention", '
        "SOSP 2023, arXiv:2309.06180",
        'vLLM documentation, "Optimization and tuning", on preemption',
    ),
    see=("kv-cache", "server_kv_use", "server_preemptions"),
)
