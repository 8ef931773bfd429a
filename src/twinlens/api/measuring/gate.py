"""The gate of `measure --gate`: whether the results are good enough, and the runs that failed."""

from __future__ import annotations

from twinlens.errors import ExecutorFailed, GateFailed
from twinlens.measurement.study import Outcome
from twinlens.measurement.summary_file import summary_of
from twinlens.record.beside import read_search
from twinlens.reporting.wording.finding import clause_of, sentence_of
from twinlens.reporting.wording.steadiness import could_hide
from twinlens.spec.slo import Slo
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.finding.failures import is_hopeless
from twinlens.stats.serving.goodput import slo_standing
from twinlens.stats.serving.looks import level_of
from twinlens.stats.summary.group import Group, group


def gate(outcome: Outcome, demanded: str = "valid") -> None:
    """Raises GateFailed naming the first point that is not `demanded` ("valid", "provisional"), or has a finding which
    fails a gate: an SLO that is missed or undecided, a missed target, a failed quality check.

    A try that failed and was made again is not held against the study. Of a search the runs beyond the limit are meant
    to fail: it fails itself where no rate met the SLO.
    """
    record = read_search(outcome.folder)
    for result in record.results if record else ():
        if result.low is None or result.outcome in ("invalid", "failed"):
            raise GateFailed(f"the search has no rate within the SLO: {clause_of(result.reason)}")
    specs = {run.id: run.spec for run in outcome.runs}
    points = () if record else group(map(summary_of, outcome.runs))
    failing = [(point, why) for point in points if (why := _why(point, demanded, specs[point.runs[0].run]))]
    if failing:
        more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
        raise GateFailed(f"{failing[0][0].runs[0].run} {failing[0][1]}{more}")


GATED = ("fidelity-failed", "target-missed")
"""Findings that leave a rate valid and yet fail the gate: who asks for one asks for them."""


def _slo(spec: RunSpec) -> Slo | None:
    return spec.workload.slo if isinstance(spec.workload, InferenceWorkload) else None


def _why(point: Group, demanded: str, spec: RunSpec) -> str:
    """Why the gate refuses a point, in words; "" where it does not. All its repeats together decide on its SLO, as
    surely as each look at them does."""
    for run in point.runs:
        if run.state != "finished":
            return f"is not finished: {run.state}"
        found = (each for each in run.findings if (each in run.disqualified and not point.ranked) or each.code in GATED)
        if (failing := next(found, None)) is not None:
            return f"fails the gate: {clause_of(failing)} ({failing.code})"
    if not point.ranked:
        _, label, because = point.fault
        return f"is not steady: {label} ({clause_of(because[0])})"
    if demanded == "valid" and point.validity != "valid":
        return f"is provisional, and the gate demands valid: {could_hide(point.verdict.hidden)}"
    slo = _slo(spec)
    if slo is not None and slo_standing(point.metrics, slo, level_of(spec.protocol)) != "pass":
        unclear = next((each for run in point.runs for each in run.findings if each.code == "slo-unclear"), None)
        told = clause_of(unclear) if unclear else "its repeats together do not show that the SLO is met"
        return f"fails the gate: {told} (slo-unclear)"
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
