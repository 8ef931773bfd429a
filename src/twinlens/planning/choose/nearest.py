"""Nearest that is possible, where no device does as it was asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from twinlens.planning.choose.candidate import Ranking, Rejected
from twinlens.record.finding import Finding

_DISTANCE: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "tpot": lambda n: n["best_s"] / n["target_s"],
    "ttft": lambda n: n["best_s"] / n["target_s"],
    "memory": lambda n: n["needed_bytes"] / n["usable_bytes"],
    "deadline": lambda n: n["tokens_per_s"] / n["best_tokens_per_s"] if n["best_tokens_per_s"] else float("inf"),
    "power": lambda n: n["needed_w"] / n["cap_w"] if n.get("cap_w") else float("inf"),
}
"""How many times a constraint is missed, by constraint."""


def nearest_possible(ranking: Ranking) -> Finding:
    """The rejected candidate that misses its constraint by least, and what it can do."""
    near = [each for each in ranking.rejected if each.reason.subject in _DISTANCE]
    if not near:
        most, _ = Counter(each.reason.subject for each in ranking.rejected).most_common(1)[0]
        return Finding("plan-impossible", "warns", most, {"lens": ranking.lens})
    best = min(near, key=_missed)
    numbers: dict[str, Any] = {"lens": ranking.lens, "device": best.device, "precision": best.precision}
    return Finding("plan-impossible", "warns", best.reason.subject, numbers | dict(best.reason.numbers))


def _missed(each: Rejected) -> tuple[bool, float]:
    """Of those that hold the work first: a target that is missed says more than memory that is."""
    return each.reason.subject == "memory", float(_DISTANCE[each.reason.subject](each.reason.numbers))
