"""Findings on requests: what failed, what did not stream, and what flattered the server's optimisations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.request import Requests
from twinlens.record.run import Run
from twinlens.spec.slo import Slo
from twinlens.stats.server.metrics import shared_share
from twinlens.stats.serving.goodput import between_tokens
from twinlens.stats.serving.latency import unstreamed

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


# Answers of several tokens that came whole at one moment: the server, or a gateway before it, does not stream.


def not_streamed(requests: Requests, slo: Slo | None) -> Iterable[Finding]:
    """A warning that there is no time between tokens; it disqualifies where the SLO limits that time."""
    why = unstreamed(requests)
    if not why:
        return
    yield Finding("not-streamed", "warns", "tpot_s_p50", {"why": why})
    limits = between_tokens(slo) if slo is not None else ()
    if limits:
        yield Finding("slo-not-judged", "disqualifies", limits[0], {"why": why})


# Checks on optimisations of a server that were on: what flattered them, and how much of the load they could meet.

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
