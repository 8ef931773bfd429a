"""Sentences on a burn-in: its verdict, limits of criteria, and rulings that say nothing of a fault."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from twinlens.acceptance.criteria import KINDS, Criterion
from twinlens.acceptance.judge import tested_s
from twinlens.acceptance.judgement import BurnInResult, Judgement, Ruling
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.reporting.display import ABSENT
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.number import number
from twinlens.units import COUNT, HOUR_S, digits, show

_MARKS = {"not met": "✗", "insufficient": "?", "met with a note": "!", "met": "✓", "not applicable": "–"}
_OF = {
    "accept": "every criterion is met",
    "accept with notes": "no criterion speaks against it, and the notes are to be read",
    "quarantine": "keep it apart, mend what is named, and repeat",
    "reject": "send it back, with this folder as the evidence",
    "insufficient": "nothing speaks against it, and not all could be judged",
}


def rest(finding: Finding) -> str:
    """A ruling that names no fault: why it could not be judged, what is possible yet, or that it is met."""
    stands, what = number(finding, "stands"), KINDS[number(finding, "what")].words
    about = f"{what} of {finding.subject}" if finding.subject else what
    if stands == "not-applicable":
        return f"{what}: {number(finding, 'why')}"
    if stands == "insufficient" and finding.numbers.get("why"):
        return f"{about}: {finding.numbers['why']}"
    value = finding.evidence["value"]
    if stands == "insufficient":
        return f"{about}: {value.lacks or f'the limit is inside its interval, {span_words(value)}: too short to tell'}"
    if stands == "met-with-a-note":
        return f"{about}: {value_words(value)}, and up to {value_words(value, 'high')} cannot be excluded"
    return f"{about}: {value_words(value)}{', within the limit' if stands == 'met' else ''}"


def verdict_words(judgement: Judgement) -> str:
    """ "Quarantine: keep it apart, mend what is named, and repeat (1 of 16 criteria not met)." """
    asked = [each for each in judgement.rulings if each.standing != "not applicable"]
    counts = [(word, sum(each.standing == word for each in asked)) for word in ("not met", "insufficient", "met")]
    noted = sum(each.standing == "met with a note" for each in asked)
    told = [f"{count} {word}" for word, count in counts if count] + ([f"{noted} with a note"] if noted else [])
    of = f"{len(asked)} criteria: {', '.join(told)}" if asked else "no criterion was judged"
    return f"{judgement.verdict.capitalize()}: {_OF[judgement.verdict]} ({of})."


def mark(ruling: Ruling) -> str:
    """One letter for how a criterion stands."""
    return _MARKS[ruling.standing]


def criterion_words(criterion: Criterion) -> str:
    """What is judged, and its limit: "temperature", "at most 90 °C"."""
    return KINDS[criterion.what].words


def limit_words(criterion: Criterion) -> str:
    """ "≥ 95%", "≤ 90 °C", "0": the limit as a column has it."""
    sign = "≥" if KINDS[criterion.what].side == "at least" else "±" if criterion.what == "drift" else "≤"
    unit = criterion.unit
    if unit in ("ratio", "per 10 h"):
        text = f"{digits(100 * criterion.limit)}%" if criterion.limit < 1 else f"{criterion.limit:g}"
        return f"{sign} {text}{' /10 h' if unit == 'per 10 h' else ''}"
    return f"{sign} {criterion.limit:g}{'' if unit in ('count', 'z') else ' /h' if unit == 'per hour' else f' {unit}'}"


def value_words(value: Estimate, of: str = "value") -> str:
    """A figure with its unit: "99.8%", "71 °C", "3.2 /h". `of`: its value, or an end of its interval."""
    shown = getattr(value, of)
    if shown is None:
        return ABSENT
    if value.unit == "per hour":
        return f"{digits(shown, 2)} /h"
    if value.unit in ("z", "°C"):
        return f"{digits(shown, 2)}{'' if value.unit == 'z' else ' °C'}"
    return f"{shown:,.0f}" if value.unit == COUNT else show(shown, value.unit)


def span_words(value: Estimate) -> str:
    """ "−0.3% to 0.2%", "" without an interval."""
    if value.low is None or value.high is None:
        return ""
    return f"{value_words(value, 'low')} to {value_words(value, 'high')}"


def decided_words(rulings: Iterable[Ruling], names: Iterable[str]) -> list[str]:
    """What decided the verdict, a clause for each criterion."""
    wanted = set(names)
    return [clause_of(each.why) for each in rulings if each.criterion.what in wanted]


def extent_words(result: BurnInResult) -> str:
    """ "2 workloads, 48.0 h with rests for 48 h, 2,880 windows, 8 devices"."""
    asked, windows = result.head.asked, result.windows
    devices = {device.device for window in windows for device in window.devices}
    hours = f"{tested_s(windows) / HOUR_S:.3g} h with rests for {asked.for_s / HOUR_S:.3g} h"
    if asked.for_s < HOUR_S:
        lasted, planned = (timedelta(seconds=round(each)) for each in (tested_s(windows), asked.for_s))
        hours = f"{lasted} with rests for {planned}"
    parts = [_counted(len(asked.workloads), "workload"), hours, _counted(len(windows), "window")]
    return ", ".join([*parts, _counted(len(devices), "device")] if devices else parts)


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
