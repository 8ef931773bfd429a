"""Distance of a candidate that is left out from what was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twinlens.record.finding import Finding

_DISTANCE: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "tpot": lambda n: n["best_s"] / n["target_s"],
    "ttft": lambda n: n["best_s"] / n["target_s"],
    "memory": lambda n: n["needed_bytes"] / n["usable_bytes"],
    "deadline": lambda n: n["tokens_per_s"] / n["best_tokens_per_s"] if n["best_tokens_per_s"] else float("inf"),
    "power": lambda n: n["needed_w"] / n["cap_w"] if n.get("cap_w") else float("inf"),
    "whole-nodes": lambda n: 1.0,
    "together": lambda n: n["devices"] / n["most"],
}
"""How many times a constraint is missed, by constraint."""


def has_distance(reason: Finding) -> bool:
    return reason.subject in _DISTANCE


def missed(reason: Finding) -> tuple[bool, bool, float]:
    """Greater where more is missed: a constraint without a distance most, then memory, then a target by its times."""
    if not has_distance(reason):
        return True, True, 0.0
    return False, reason.subject in ("memory", "whole-nodes"), float(_DISTANCE[reason.subject](reason.numbers))
