"""Parts of a ruling: one device or workload against one criterion, and how they become the ruling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from twinlens.acceptance.criteria import KINDS, Criterion
from twinlens.acceptance.judgement import Ruling, Standing
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding, Severity
from twinlens.units import COUNT, RATIO

LEVEL = 0.95
_ORDER: dict[Standing, int] = {
    "not met": 4,
    "insufficient": 3,
    "met with a note": 2,
    "met": 1,
    "not applicable": 0,
}
_SEVERITIES: dict[Standing, Severity] = {
    "not met": "disqualifies", "insufficient": "warns", "met with a note": "warns",
    "met": "notes", "not applicable": "notes",
}  # fmt: skip
_UNITS = {"count": COUNT, "ratio": RATIO, "per 10 h": RATIO, "z": "z", "per hour": "per hour", "°C": "°C"}
_MOST_WINDOWS = 200


@dataclass(frozen=True, slots=True)
class Part:
    """One device or workload (`about`) against one criterion. `numbers`: what its sentence needs."""

    standing: Standing
    value: Estimate
    about: str = ""
    device: str = ""
    workload: str = ""
    windows: tuple[int, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)


def unit_of(criterion: Criterion) -> str:
    """The unit of an estimate that is judged by it."""
    return _UNITS[criterion.unit]


def lacking(criterion: Criterion, reason: str, **where: Any) -> Part:
    """What cannot be judged, and why."""
    return Part("insufficient", Estimate.absent(unit_of(criterion), reason), **where)


def not_asked(criterion: Criterion, reason: str) -> Part:
    """What there is nothing of to judge, and why."""
    return Part("not applicable", Estimate.absent(unit_of(criterion), reason))


def met(is_met: bool) -> Standing:
    """The standing of what was counted and has no interval."""
    return "met" if is_met else "not met"


def standing_of(criterion: Criterion, value: Estimate) -> Standing:
    """Where an estimate stands to its limit.

    Met or not met where the whole interval is on one side. Where the limit is inside it, the value on the good side is
    met with a note, as long as the interval is no wider to either side than what the limit allows; else the test was
    too short to tell.
    """
    if value.value is None or value.low is None or value.high is None:
        return "insufficient"
    side, limit = KINDS[criterion.what].side, criterion.limit
    if side == "at least":
        good, bad = value.low >= limit, value.high < limit
    else:
        good, bad = value.high <= limit, value.low > limit
    if good or bad:
        return "met" if good else "not met"
    is_good = value.value >= limit if side == "at least" else value.value <= limit
    allowed = 1 - limit if side == "at least" else limit
    is_fine = (value.high - value.low) / 2 <= allowed
    return "met with a note" if is_good and is_fine else "insufficient"


def ruling_of(criterion: Criterion, parts: Sequence[Part]) -> Ruling:
    """The ruling by the worst part, with the evidence of all that stand as it does. The order of parts decides nothing
    but between equals."""
    if not parts:
        parts = [lacking(criterion, "no window was measured")]
    worst = max(parts, key=lambda part: (_ORDER[part.standing], _badness(criterion, part)))
    alike = [part for part in parts if part.standing == worst.standing] if worst.standing != "met" else [worst]
    value = worst.value.value
    amount = int(value) if value is not None and criterion.unit == "count" else value
    numbers = {
        "what": criterion.what, "stands": worst.standing.replace(" ", "-"), "limit": criterion.limit,
        "unit": criterion.unit, "amount": amount, **worst.numbers,
    }  # fmt: skip
    if value is None:
        numbers["why"] = worst.value.lacks
    others = _each(part.device or part.workload for part in alike)
    numbers["others"] = [each for each in others if each != (worst.device or worst.workload)] or None
    evidence = {"value": worst.value} if value is not None else {}
    why = Finding(f"burnin-{criterion.what}", _SEVERITIES[worst.standing], worst.about, numbers, evidence)
    windows = tuple(sorted({each for part in alike for each in part.windows}))[:_MOST_WINDOWS]
    return Ruling(
        criterion, worst.standing, worst.value, why, _each(part.device for part in alike),
        _each(part.workload for part in alike), windows,
    )  # fmt: skip


def _badness(criterion: Criterion, part: Part) -> float:
    value = part.value.value
    if value is None:
        return float("-inf")
    if criterion.what == "drift":
        return abs(value)
    return -value if KINDS[criterion.what].side == "at least" else value


def _each(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({each for each in names if each}))


assert set(_ORDER) == set(get_args(Standing))
