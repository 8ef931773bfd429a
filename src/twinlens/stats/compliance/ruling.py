"""Rulings from intervals, which all compliance tests share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.sections import ComplianceTest, Ruling

LEVEL = 0.99


def not_applicable(code: str) -> tuple[ComplianceTest, ...]:
    """All four, where none can be asked; `code`: why."""
    named = (("caching", "TEST04"), ("tokens", "TEST06"), ("answers", "TEST07"), ("length", "TEST09"))
    return tuple(ComplianceTest(id, after, "not applicable", reason_of(code)) for id, after in named)


def reason_of(code: str, evidence: Mapping[str, Estimate] | None = None, **numbers: Any) -> Finding:
    return Finding(code, "notes", "", numbers, evidence or {})


Told = Literal["pass", "fail", "open", "few"]
RULINGS: dict[Told, Ruling] = {"pass": "pass", "fail": "fail", "open": "not enough", "few": "not enough"}


def told_by(estimate: Estimate, least: float = -math.inf, most: float = math.inf) -> Told:
    """The position of an interval to its limits: within both, beyond one, open, or too few values for an interval."""
    if estimate.low is None or estimate.high is None:
        return "few"
    if estimate.high < least or estimate.low > most:
        return "fail"
    return "pass" if estimate.low >= least and estimate.high <= most else "open"
