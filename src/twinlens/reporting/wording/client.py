"""Sentences on a client that was too slow for the load it measured."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import number, numbers
from twinlens.units import SECONDS, digits, show


def _lost(finding: Finding) -> str:
    how, when_s, requests = numbers(finding, "how", "after_s", "requests")
    who = finding.subject[:1].upper() + finding.subject[1:]
    return f"{who} {how} {when_s:.1f} s into the run: {requests} requests of its part failed."


def _loaded(finding: Finding) -> str:
    took, share, ceiling, most = numbers(finding, "tokens_per_s", "share", "ceiling_tokens_per_s", "most_share")
    return (
        f"The client took in {digits(took)} tokens/s, {digits(100 * share, 2)} % of the "
        f"{digits(ceiling)} it can take: above {100 * most:.0f} % the run measures the client's own queue."
    )


def _stood_still(finding: Finding) -> str:
    sent_s, read_s = (float(finding.numbers.get(name) or 0.0) for name in ("sent_late_s", "read_late_s"))
    late = "a request was sent" if sent_s >= read_s else "an answer was read"
    most = number(finding, "most_s")
    return f"The client stopped for a while: {late} {show(max(sent_s, read_s), SECONDS)} late, more than {most:g} s."


def _sent(finding: Finding) -> str:
    """How late requests were sent, and how well the clocks are known."""
    late_s, quantile = numbers(finding, "late_s", "quantile")
    bound_s = finding.numbers.get("clock_bound_s")
    known = f", and clocks known to {show(bound_s, SECONDS)}" if bound_s is not None else ""
    return f"Requests were sent late (p{100 * quantile:g} {show(late_s, SECONDS)}{known})"


def _sent_late(finding: Finding) -> str:
    most = number(finding, "most_share")
    return f"{_sent(finding)}: more than {100 * most:.0f} % of that quantile of the time to first token."


def _arrivals_late(finding: Finding) -> str:
    gap = show(number(finding, "gap_s"), SECONDS)
    return f"{_sent(finding)}, and one was due every {gap}: the arrivals differ from the plan."


def _read(finding: Finding) -> str:
    late_s, most = numbers(finding, "late_s", "most_share")
    return (
        f"The client read answers late (p99 {show(late_s, SECONDS)}, "
        f"more than {100 * most:.0f} % of the median gap between tokens)"
    )


def _read_late(finding: Finding) -> str:
    return f"{_read(finding)}, and times are taken when the client reads."


def _chunks_merged(finding: Finding) -> str:
    merged = digits(100 * number(finding, "merged_share"), 2)
    return f"{_read(finding)} and merged {merged} % of the chunks, whose own times are lost."


def _rate_off_plan(finding: Finding) -> str:
    return f"Requests were sent at {digits(100 * number(finding, 'rate_ratio'))} % of the planned rate."


def _gaps_off_plan(finding: Finding) -> str:
    distance, p = numbers(finding, "distance", "p")
    return (
        "The gaps between requests differ from the plan (Kolmogorov–Smirnov distance "
        f"{digits(distance)}, p = {digits(p, 2)})."
    )


def _bursts(finding: Finding) -> str:
    planned, achieved = numbers(finding, "planned_dispersion", "achieved_dispersion")
    return f"Requests were sent in bursts: index of dispersion {digits(achieved)}, planned {digits(planned)}."


def _read_late_stamped(finding: Finding) -> str:
    late = show(number(finding, "late_s"), SECONDS)
    return f"The client read late (p99 {late}); times are the kernel's, so the delay is not in them."


SENTENCES = {
    "client-lost": _lost,
    "client-stood-still": _stood_still,
    "client-loaded": _loaded,
    "sent-late": _sent_late,
    "arrivals-late": _arrivals_late,
    "read-late": _read_late,
    "chunks-merged": _chunks_merged,
    "rate-off-plan": _rate_off_plan,
    "gaps-off-plan": _gaps_off_plan,
    "arrivals-in-bursts": _bursts,
    "not-calibrated": lambda finding: "The client was not calibrated before the run: its ceiling is unknown.",
    "read-late-stamped": _read_late_stamped,
}
