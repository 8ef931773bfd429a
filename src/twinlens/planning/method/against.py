"""Reasons that put a way to meet a need out of the question: weights, memory, time, and money."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from twinlens.planning.figure import Figure
from twinlens.planning.fit.placement import Placement
from twinlens.planning.method.need import PER_MONTH, Need, Part
from twinlens.planning.method.rule import MethodRule, Step
from twinlens.record.finding import Finding
from twinlens.units import HOURS_A_MONTH

TRAINED: tuple[Step, ...] = ("lora", "qlora", "full", "scratch")
"""Steps that train weights."""


def against(
    need: Need,
    device: str,
    devices: int,
    steps: tuple[Step, ...],
    once: Figure,
    memory: Placement | None,
    cost: Figure,
    meets: tuple[tuple[Part, MethodRule], ...],
) -> tuple[Finding, ...]:
    """Why a way is out of the question on so many devices; () where it is not.

    `once`: device-hours of training; `cost` in the currency of the budget. Each is judged by the far end of its band.
    """
    found = []
    if any(part == "own-weights" and rule.level == "no" for part, rule in meets):
        found.append(_no("own-weights"))
    if any(step in TRAINED for step in steps) and once.value == 0:
        found.append(_no("nothing-to-train-on"))
    if memory is not None and (memory.devices > devices or memory.fits is False):
        found.append(_no("memory", needs=memory.devices, has=devices, device=device))
    if need.deadline_s is not None and once.value and once.end("high") * 3600 / devices > need.deadline_s:
        found.append(_no("deadline", hours=once.end("high") / devices, limit_h=need.deadline_s / 3600))
    times = PER_MONTH[need.changes] if need.corpus and "retrieval" not in steps else 0.0
    if times and once.value and once.end("high") / devices > HOURS_A_MONTH / times:
        found.append(_no("changes", hours=once.end("high") / devices, limit_h=HOURS_A_MONTH / times))
    if need.budget is not None and cost.value is not None and Decimal(str(cost.end("high"))) > need.budget:
        found.append(_no("budget", cost=cost.end("high"), limit=float(need.budget), months=need.months))
    return tuple(found)


def _no(why: str, **numbers: Any) -> Finding:
    return Finding("plan-method", "notes", why, numbers)
