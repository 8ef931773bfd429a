"""Sentences on the steadiness of a ratio between points that take turns."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import number, numbers, percent


def _few_rounds(finding: Finding) -> str:
    rounds, fewest = numbers(finding, "rounds", "fewest")
    return f"a repeat has only {rounds} rounds; at least {fewest} are needed"


def _ratio_drifts(finding: Finding) -> str:
    change, repeat = number(finding, "change"), finding.numbers.get("repeat")
    over = "a repeat" if repeat is None else f"repeat {repeat}"
    return f"the ratio {'grows' if change > 0 else 'falls'} by {percent(abs(change))} over {over}"


def _drift_unseen(finding: Finding) -> str:
    rounds, visible = numbers(finding, "rounds", "visible_change")
    return f"no change showed in {rounds} rounds, but a change of less than {percent(visible)} could be missed"


def _ratio_level(finding: Finding) -> str:
    return f"a change of {percent(number(finding, 'visible_change'))} over a repeat would have shown"


def _suffers_unequally(finding: Finding) -> str:
    calm, of, change = numbers(finding, "calm", "of", "change")
    way = "above" if change > 0 else "below"
    return (
        f"one side suffers more from other programs: beside them the ratio is {percent(abs(change))} {way} that of the "
        f"{calm} calm rounds of {of}, too few to go by"
    )


def _no_calm_rounds(finding: Finding) -> str:
    calm, of = numbers(finding, "calm", "of")
    known = f"only {calm} of {of} rounds were" if calm else f"none of {of} rounds was"
    return f"{known} calm, so it is the ratio beside other programs"


CLAUSES = {
    "few-rounds": _few_rounds,
    "equal-rounds": lambda finding: "every round has the same ratio",
    "ratio-drifts": _ratio_drifts,
    "drift-unseen": _drift_unseen,
    "ratio-level": _ratio_level,
    "suffers-unequally": _suffers_unequally,
    "no-calm-rounds": _no_calm_rounds,
}
