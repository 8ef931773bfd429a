"""Checks on optimisations of a server that were on: what flattered them, and how much of the load they could meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.stats.serving.planned_hits import shared_share

_RANDOM = "random-weights-served"


def optimisations(run: Run, metrics: Mapping[str, Estimate]) -> Iterator[Finding]:
    """Findings on speculation with random weights, and on a prefix cache beside what prompts have in common."""
    if run.facts is None or run.sections.server is None:
        return
    spoken = run.facts.executor.value("serving.speculative")
    accepted = metrics.get("draft_acceptance")
    if spoken not in (None, "none") and any(found.code == _RANDOM for found in run.facts.findings):
        known = accepted if accepted is not None and accepted.value is not None else None
        numbers = {"accepted": known.value if known else None}
        yield Finding("speculation-flattered", "warns", "", numbers, {"draft_acceptance": known} if known else {})
    hits = metrics.get("prefix_hit_ratio")
    shared = shared_share(run)
    is_meant = "prefix_caching" in run.spec.executor.options or bool(shared)
    is_on = run.facts.executor.value("serving.prefix_cache") is True
    if is_on and is_meant and hits is not None and hits.value is not None:
        numbers = {"hits": hits.value, "shared": shared}
        yield Finding("prefix-cache-met", "notes", "", numbers, {"prefix_hit_ratio": hits})
