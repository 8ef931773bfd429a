"""Sentences on precision, fidelity, loss, and shares of a ceiling."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import number, numbers, subject_of
from twinlens.units import RATIO, digits, show

IMPOSSIBLE = (
    "above 100%: its ceiling was measured too low (a busy neighbour, or a cache), so do not read it as efficiency"
)


def _precision_differs(finding: Finding) -> str:
    declared, observed, evidence = numbers(finding, "declared", "observed", "evidence")
    return f"{finding.subject} was declared as {declared} and ran as {observed} ({evidence})."


def _out_of_tolerance(finding: Finding) -> str:
    value, limit = numbers(finding, "value", "limit")
    side = "below" if finding.numbers["at_least"] else "above"
    return f"{subject_of(finding)} {digits(value)} is {side} {limit:g}"


def _diverged(finding: Finding) -> str:
    rows, of, first = (int(count) for count in numbers(finding, "rows", "of", "first"))
    return f"Training diverged: the loss of {rows:,} of {of:,} rows is not a number, from row {first:,} on."


def _target_missed(finding: Finding) -> str:
    target, looks = numbers(finding, "target_nats", "looks")
    best = finding.numbers.get("best_nats")
    outcome = f"best {digits(best, 4)}" if best is not None else "no held-out loss is a number"
    return f"The target loss of {digits(target, 4)} nats was not reached ({outcome if looks else 'no evaluation'})."


def _impossible_share(finding: Finding) -> str:
    return f"{subject_of(finding)} is {show(float(number(finding, 'share')), RATIO)}, {IMPOSSIBLE}."


def _ceiling_moved(finding: Finding) -> str:
    before, after, change = numbers(finding, "before", "after", "change")
    unit = str(finding.numbers["unit"])
    what = _CEILINGS.get(finding.subject, finding.subject)
    size = f"{change:+.0%}" if change < 1 else f"{1 + change:.3g} times as much"
    return (
        f"The {what} of this machine was {show(before, unit)} before the run and {show(after, unit)} after it "
        f"({size}): a share of it is uncertain by as much."
    )


_CEILINGS = {"matrix_flop_per_s": "matrix rate", "read_bytes_per_s": "read bandwidth"}


def _steps_skipped(finding: Finding) -> str:
    skipped, steps = numbers(finding, "skipped", "steps")
    return f"{skipped:.0f} of {steps:.0f} steps overflowed in fp16 and trained nothing; they count in the rates."


CLAUSES = {
    "out-of-tolerance": _out_of_tolerance,
    "within-tolerance": lambda finding: "within tolerance",
}
SENTENCES = {
    "precision-differs": _precision_differs,
    "diverged": _diverged,
    "target-missed": _target_missed,
    "impossible-share": _impossible_share,
    "ceiling-moved": _ceiling_moved,
    "steps-skipped": _steps_skipped,
}
