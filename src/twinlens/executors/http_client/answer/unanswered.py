"""Exchanges that hold no answer at all: a fault on the wire, or another HTTP status than 200."""

from __future__ import annotations

from twinlens.executors.http_client.answer.ended import Ended
from twinlens.record.request import RequestOutcome

_REFUSED = (429, 503)
_MOST_WORDS = 200


def unanswered(ended: Ended) -> tuple[RequestOutcome, str] | None:
    """Refused or failed, and why; None where there is an answer to look into."""
    if ended.fault is not None:
        return ("refused" if ended.loss == "never open" else "failed"), ended.fault
    if ended.status != 200:
        return ("refused" if ended.status in _REFUSED else "failed"), _http_error(ended)
    return ("failed", ended.answer.error) if ended.answer.error else None


def _http_error(ended: Ended) -> str:
    after = ended.headers.get("retry-after")
    words = " ".join(ended.body[:2000].decode("utf-8", "replace").split())[:_MOST_WORDS]
    return f"HTTP {ended.status}" + (f", Retry-After {after[:40]}" if after else "") + (f": {words}" if words else "")
