"""Make a row of an exchange whose answer comes in one piece: ok only where the answer holds what was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from twinlens.executors.http_client.answer.ended import Ended
from twinlens.executors.http_client.answer.unanswered import unanswered
from twinlens.record.foreign_text import in_one_line
from twinlens.record.request import Request, RequestOutcome
from twinlens.schedule.request import ScheduledRequest, request_of

_MOST_TOKENS = 2**24
_MOST_PER_TOKEN, _ADDED = 16, 1024
"""Tokens that a server may count for each that was asked for: no word of a prompt has more bytes. And those it adds."""
_COUNTS = ("prompt_tokens", "total_tokens")

Fault = Callable[[dict[str, Any]], str | None]
"""Why an answer is not what was asked for; None where it is."""


def row_of_one_answer(scheduled: ScheduledRequest, ended: Ended, origin_ns: int, fault: Fault) -> Request:
    """The row of an ask, times from `origin_ns`: one chunk of no token, at the moment of the answer's last byte.

    `input_tokens` is what the server's `usage` counts; what was asked for where it counts nothing. A count that cannot
    be fails the request.
    """
    outcome, error = _outcome(scheduled, ended, fault)
    end_ns = ended.end_ns - origin_ns
    is_ok = outcome == "ok"
    return request_of(
        scheduled,
        sent_ns=ended.sent_ns - origin_ns,
        chunk_ns=(end_ns,) if is_ok else (),
        chunk_tokens=(0,) if is_ok else (),
        end_ns=end_ns,
        input_tokens=_counted(ended.answer.said) or scheduled.input_tokens,
        output_tokens=0,
        asked_tokens=None,
        outcome=outcome,
        status=ended.status or None,
        error=None if error is None else in_one_line(error),
        loss=ended.loss,
        lag_ns=int(ended.lags_ns.max()) if len(ended.lags_ns) else None,
        merged_reads=ended.merged,
    )


def prompt_fault(counted: int, asked: int, added: int = _ADDED) -> str | None:
    """Why a server cannot have read `counted` tokens in a prompt of about `asked`, to which something `added` some."""
    if counted <= _MOST_PER_TOKEN * asked + added:
        return None
    return f"the server counts {counted} input tokens, and about {asked} were sent"


def _outcome(scheduled: ScheduledRequest, ended: Ended, fault: Fault) -> tuple[RequestOutcome, str | None]:
    if (why := unanswered(ended)) is not None:
        return why
    if ended.answer.said is None:
        kind = ended.headers.get("content-type", "none")
        return "failed", f"the answer has the content type {kind[:60]}, not application/json"
    said = ended.answer.said
    wrong = fault(said) or _impossible(said) or prompt_fault(_counted(said) or 0, scheduled.input_tokens)
    return ("ok", None) if wrong is None else ("failed", wrong)


def _counted(said: dict[str, Any] | None) -> int | None:
    return next((count for count in _counts(said).values() if _can_be(count) and count), None)


def _impossible(said: dict[str, Any]) -> str | None:
    """Counts of `usage` that cannot be; None where there are none."""
    wrong = [f"{name} {json.dumps(count)[:40]}" for name, count in _counts(said).items() if not _can_be(count)]
    return f"the server counts what cannot be: {', '.join(wrong)}" if wrong else None


def _counts(said: dict[str, Any] | None) -> dict[str, Any]:
    usage = (said or {}).get("usage")
    known = usage if isinstance(usage, dict) else {}
    return {name: known[name] for name in _COUNTS if known.get(name) is not None}


def _can_be(count: Any) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _MOST_TOKENS
