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


SENTENCES = {
    "counts-disagree": _counts_disagree,
    "first-tokens-disagree": _first_tokens_disagree,
    "server-metrics-not-read": _not_read,
    "server-readings-failed": _readings_failed,
    "server-restarted": _restarted,
    "server-read-no-further": _read_no_further,
}
