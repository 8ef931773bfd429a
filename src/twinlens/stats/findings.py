"""What checks found in one run, as data. A check is a pure function of what was `Seen`; CHECKS names them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding, worst_first
from twinlens.record.guard import guards_in
from twinlens.record.run import Run
from twinlens.stats.causes import causes
from twinlens.stats.group import Verdict
from twinlens.stats.metrics.disturbance import other_programs, throttled
from twinlens.stats.metrics.pace import pace_of


@dataclass(frozen=True, slots=True)
class Seen:
    """What a check may look at: the run as recorded, its metrics, and the verdict on whether it was steady."""

    run: Run
    metrics: Mapping[str, Estimate]
    verdict: Verdict


Check = Callable[[Seen], Iterable[Finding]]


def findings(seen: Seen) -> tuple[Finding, ...]:
    """All that all checks found, the gravest first."""
    return worst_first(one for check in CHECKS for one in check(seen))


def precision_differs(seen: Seen) -> Iterable[Finding]:
    """A tensor class that ran in another format than declared: the number has another precision's name."""
    for check in seen.run.facts.precision if seen.run.facts else ():
        if check.verdict == "differs":
            numbers = {"declared": check.declared, "observed": check.observed, "evidence": check.evidence}
            yield Finding("precision-differs", "disqualifies", check.tensor_class, numbers)


def guard_failed(seen: Seen) -> Iterable[Finding]:
    """A guard of accuracy that failed: the server did not do the work that was asked of it."""
    for guard in guards_in(seen.run.raw):
        if guard.ruling == "fail":
            yield Finding("guard-failed", "disqualifies", guard.id, {"after": guard.after, "reason": guard.reason})


def held_up(seen: Seen) -> Iterable[Finding]:
    """What went with the slow moments of a run that was not steady; that nothing did is an answer too."""
    if seen.verdict.ranked or not seen.run.table.num_rows:
        return
    pace = pace_of(seen.run)
    found = causes(pace, seen.run.telemetry) if pace else ()
    for one in found:
        yield Finding("cause", "warns", one.source, {key: getattr(one, key) for key in _OF_A_CAUSE})
    if not found:
        yield Finding("no-cause-found", "notes", "", {"samples": seen.run.telemetry.num_rows})


_OF_A_CAUSE = ("how", "slow", "calm", "share", "correlation", "external")


def shared_machine(seen: Seen) -> Iterable[Finding]:
    """What lowered a figure evenly, so that the run was steady all the same: a ranked number of a shared machine."""
    telemetry, begin_s, end_s = seen.run.telemetry, seen.verdict.begin_s, seen.verdict.end_s
    share = other_programs(telemetry, begin_s, end_s)
    if share is not None and seen.verdict.ranked:
        yield Finding("shared-machine", "warns", "", {"share": share})
    for reason, of_window in throttled(telemetry, begin_s, end_s):
        yield Finding("throttled", "warns", reason, {"share": of_window})


def retaken(seen: Seen) -> Iterable[Finding]:
    """A run that was taken again: the attempts before it were disturbed by others, and are kept."""
    attempt = int(seen.run.raw.get("attempt", 1))
    if attempt > 1:
        yield Finding("retaken", "warns", "", {"attempt": attempt})


CHECKS: tuple[Check, ...] = (precision_differs, guard_failed, held_up, shared_machine, retaken)
"""In the order in which people read them. A new check is a line here."""
