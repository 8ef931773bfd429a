"""Requests that failed: how many, why, and whether the server was there to the end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from twinlens.record.finding import Finding
from twinlens.record.run import Run

MOSTLY = 0.5  # with more than half of its requests lost a run says nothing of the answers that a user gets
HOPELESS = 0.9  # nearly all: what was meant to be measured did not happen
_FEWEST_DEAD = 5  # fewer at the end may be a restart, or one unlucky connection
_REASONS = 4
_NUMBER = re.compile(r"(HTTP \d{3})\b|\d+")
_AWAY = ("cannot connect", "the connection broke", "the server closed the connection")
"""How the errors of rows began that runs of before `loss` have, where the connection was lost."""


def failures(run: Run) -> Iterable[Finding]:
    """Findings on the requests of a run that were refused, failed or cut off; none where all ended well."""
    if run.lens != "inference" or not run.table.num_rows:
        return
    lost = ~run.requests.ok
    if not lost.any():
        return
    numbers: dict[str, Any] = {
        "requests": len(lost),
        "lost": int(lost.sum()),
        "outcomes": dict(Counter(map(str, run.requests.outcome[lost]))),
        "reasons": reasons(run, lost),
    }
    died = _died(run, lost)
    if died is not None:
        yield Finding("server-died", "disqualifies", "", numbers | died)
    elif lost.mean() > MOSTLY:
        yield Finding("mostly-failed", "disqualifies", "", numbers)
    else:
        yield Finding("requests-failed", "warns", "", numbers)


def is_hopeless(finding: Finding) -> bool:
    """Whether nearly nothing was measured: a run to be called a failure though it went on to its end."""
    share = finding.numbers.get("lost", 0) / max(1, finding.numbers.get("requests", 0))
    return finding.code == "server-died" or (finding.code == "mostly-failed" and share >= HOPELESS)


def reasons(run: Run, lost: np.ndarray) -> list[list[Any]]:
    """The most frequent reasons of the rows `lost` [n], each with how often; those alike but for numbers are one,
    HTTP statuses apart."""
    if "error" not in run.table.column_names:
        return []
    errors = run.table.column("error").to_pylist()
    alike: dict[str, Counter[str]] = {}
    for row in np.flatnonzero(lost):
        word = errors[row] or f"{run.requests.outcome[row]}, and nobody said why".replace("_", " ")
        alike.setdefault(_NUMBER.sub(lambda number: number[1] or "0", word), Counter())[word] += 1
    often = sorted(alike.values(), key=lambda kinds: -kinds.total())
    return [[kinds.most_common(1)[0][0], kinds.total()] for kinds in often[:_REASONS]]


def _died(run: Run, lost: np.ndarray) -> dict[str, Any] | None:
    """When the server answered last and how many requests it took none of afterwards; None where it was there."""
    if lost.all() or "error" not in run.table.column_names:
        return None
    requests = run.requests
    last_ns = int(requests.end_ns[~lost].max())
    after = requests.intended_ns > last_ns
    away = _away(run)[after]
    if away.size < _FEWEST_DEAD or not away.all():
        return None
    return {"last_answer_s": last_ns / 1e9, "after": away.size}


def _away(run: Run) -> np.ndarray:
    """Whether each request was lost with its connection, shape (rows,)."""
    losses = run.table.column("loss")
    if losses.null_count < len(losses):
        return np.asarray(losses.is_valid().to_numpy(), dtype=bool)
    errors = run.table.column("error").to_pylist()  # a run of before, or one in which no connection was lost
    return np.array([(words or "").startswith(_AWAY) for words in errors])
