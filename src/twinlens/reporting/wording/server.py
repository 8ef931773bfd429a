"""Sentences on the server's own figures: disagreement with the client's, and readings that failed."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import number, numbers
from twinlens.units import SECONDS, digits, show

_COUNTED = {"server_tokens_agreement": "generated tokens", "server_requests_agreement": "finished requests"}
_WHY_COUNTS = {
    "server_tokens_agreement": "another client uses this server too, or the client does not count tokens",
    "server_requests_agreement": "another client uses this server too, or the server counts differently",
}


def _counts_disagree(finding: Finding) -> str:
    server, client, allowed = numbers(finding, "server", "client", "allowed_share")
    counted = _COUNTED[finding.subject]
    return (
        f"Server and client disagree: {server:,.0f} {counted} at the server, {client:,.0f} at the client; a difference "
        f"of up to {digits(100 * allowed, 2)} % is expected; {_WHY_COUNTS[finding.subject]}."
    )


def _first_tokens_disagree(finding: Finding) -> str:
    server_s, client_s, most_s = numbers(finding, "server_s", "client_s", "most_s")
    means = f"mean TTFT {show(server_s, SECONDS)} at the server, {show(client_s, SECONDS)} from send at the client"
    if client_s > server_s:
        return (
            f"Server and client disagree: {means}; the difference is {show(client_s - server_s, SECONDS)}, and up to "
            f"{show(most_s, SECONDS)} is expected. Requests wait in the network, or before the engine takes them."
        )
    return (
        f"Server and client disagree: {means}; the server's time cannot be the longer one, so the two measure "
        "different things, or another client uses this server too."
    )


def _not_read(finding: Finding) -> str:
    return f"The server's own metrics are not measured: {number(finding, 'reason')}."


def _readings_failed(finding: Finding) -> str:
    failed, readings, last = numbers(finding, "failed", "readings", "last")
    return f"{failed} of {readings} readings of the server's metrics failed, the last one: {last}."


def _restarted(finding: Finding) -> str:
    moments = ", ".join(f"{moment:.1f} s" for moment in number(finding, "seen_s"))
    return f"The server restarted during the run (its counters fell; seen at {moments})."


def _read_no_further(finding: Finding) -> str:
    return f"Reading the server's metrics stopped: {number(finding, 'reason')}."


def _switch_differs(finding: Finding) -> str:
    asked, observed, source = numbers(finding, "asked", "observed", "source")
    ran = f"the server runs {_worth(observed)} ({source})"
    return f"executor.options.{finding.subject} = {_worth(asked)} was asked, and {ran}."


def _switch_not_seen(finding: Finding) -> str:
    return (
        f"The server was started with executor.options.{finding.subject} = {_worth(number(finding, 'asked'))} and says "
        "nothing of it: whether it is in force is not known."
    )


def _speculation_flattered(finding: Finding) -> str:
    accepted = finding.numbers.get("accepted")
    share = f"{100 * float(str(accepted)):.0f} % of the drafted tokens were accepted" if accepted is not None else ""
    return (
        "Random weights flatter speculation: their answers repeat themselves, so drafts are easy; "
        f"{share or 'the server does not say how many were accepted'}. A trained model gains less."
    )


def _prefix_cache_met(finding: Finding) -> str:
    hits, shared = numbers(finding, "hits", "shared")
    could = "" if shared is None else f"; by the workload {100 * shared:.0f} % could"
    return f"{100 * hits:.0f} % of the prompt tokens came from the prefix cache{could}."


def _worth(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


SENTENCES = {
    "switch-differs": _switch_differs,
    "switch-not-seen": _switch_not_seen,
    "speculation-flattered": _speculation_flattered,
    "prefix-cache-met": _prefix_cache_met,
    "counts-disagree": _counts_disagree,
    "first-tokens-disagree": _first_tokens_disagree,
    "server-metrics-not-read": _not_read,
    "server-readings-failed": _readings_failed,
    "server-restarted": _restarted,
    "server-read-no-further": _read_no_further,
}
