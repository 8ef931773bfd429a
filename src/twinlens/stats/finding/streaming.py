"""Answers of several tokens that came whole at one moment: the server, or a gateway before it, does not stream."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.record.finding import Finding
from twinlens.record.request import Requests
from twinlens.spec.slo import Slo
from twinlens.stats.serving.goodput import between_tokens
from twinlens.stats.serving.latency import unstreamed


def not_streamed(requests: Requests, slo: Slo | None) -> Iterable[Finding]:
    """A warning that there is no time between tokens; it disqualifies where the SLO limits that time."""
    why = unstreamed(requests)
    if not why:
        return
    yield Finding("not-streamed", "warns", "tpot_s_p50", {"why": why})
    limits = between_tokens(slo) if slo is not None else ()
    if limits:
        yield Finding("slo-not-judged", "disqualifies", limits[0], {"why": why})
