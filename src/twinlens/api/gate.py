"""The gate of `measure --gate`: whether the results are good enough, and the runs that failed."""

from __future__ import annotations

from twinlens.errors import ExecutorFailed, GateFailed
from twinlens.measurement.study import Outcome
from twinlens.measurement.summary_file import summary_of
from twinlens.record.search import read_search
from twinlens.reporting.wording.finding import clause_of, sentence_of
from twinlens.stats.finding.failures import is_hopeless
from twinlens.stats.summary.group import Summary, group


def gate(outcome: Outcome) -> None:
    """Raises GateFailed naming the first run that is not ranked, or that has a finding which fails a gate.

    A try that failed and was made again is not held against the study. Of a search the runs beyond the limit are meant
    to fail: it fails itself where no rate met the SLO.
    """
    record = read_search(outcome.folder)
    for result in record.results if record else ():
        if result.low is None or result.outcome in ("invalid", "failed"):
            raise GateFailed(f"the search has no rate within the SLO: {clause_of(result.reason)}")
    failing = (
        [] if record else [run for members in group(map(summary_of, outcome.runs)) for run in members.runs if _why(run)]
    )
    if failing:
        more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
        raise GateFailed(f"{failing[0].run} {_why(failing[0])}{more}")


GATED = ("fidelity-failed", "target-missed")
"""Findings that keep no rate from being ranked and yet fail the gate: who asks for one asks for them."""


def _why(summary: Summary) -> str:
    """Why the gate refuses a run, in words; "" where it does not."""
    failing = next(
        (finding for finding in summary.findings if finding in summary.disqualified or finding.code in GATED), None
    )
    if summary.state != "finished":
        return f"is not finished: {summary.state}"
    if failing is not None:
        return f"fails the gate: {clause_of(failing)} ({failing.code})"
    if summary.verdict.validity == "not valid":
        return f"is not steady: {summary.verdict.label} ({clause_of(summary.verdict.reason)})"
    return ""


def raise_failures(outcome: Outcome) -> None:
    """Raises ExecutorFailed naming the runs that did not finish, and those that measured next to nothing (TL310)."""
    if outcome.failures:
        more = f" (and {len(outcome.failures) - 1} more)" if len(outcome.failures) > 1 else ""
        raise ExecutorFailed(f"a run failed: {outcome.failures[0]}{more}", code=outcome.failures[0].code)
    _raise_hopeless(outcome)


def _raise_hopeless(outcome: Outcome) -> None:
    """Raises ExecutorFailed (TL310) where nearly all requests of a run were lost, or its server was gone.

    A search goes beyond what a server can do, and says itself what it found.
    """
    if read_search(outcome.folder) is not None:
        return
    runs = [run for members in group(map(summary_of, outcome.runs)) for run in members.runs]
    lost = [(run, finding) for run in runs for finding in run.findings if is_hopeless(finding)]
    if lost:
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        clause = sentence_of(lost[0][1])
        raise ExecutorFailed(
            f"{lost[0][0].run} measured next to nothing{more}: {clause[:1].lower()}{clause[1:]}", code="TL310"
        )
