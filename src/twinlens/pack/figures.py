"""Figures of a pack beside those that its own rows give: each that differs is named."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from twinlens.stats.run_summary import to_json
from twinlens.stats.summary.group import Summary

FIGURES = "figures.json"
"""The summary of a run, in its folder of a pack; not summary.json, which reading renews."""
_SAME = 1e-6  # the last digits of a float are the processor's
_WORDS = ("ranked", "rows", "lens", "state", "model", "executor")


def figures_of(packed: Mapping[str, Any], summary: Summary) -> Iterator[tuple[str, Any, Any]]:
    """Each figure that figures.json states: its name, what it says, and what the rows say."""
    true = to_json(summary)
    for name in _WORDS:
        if name in packed:
            yield name, packed[name], true.get(name)
    for name, stated in _estimates(packed.get("metrics")).items():
        given = _estimates(true["metrics"]).get(name, {})
        for part in ("value", "low", "high"):
            if stated.get(part) is not None:
                yield name if part == "value" else f"{name} ({part})", stated[part], given.get(part)
    verdict = packed.get("verdict")
    if isinstance(verdict, Mapping):
        yield "label", verdict.get("label"), true["verdict"]["label"]


def is_same(stated: Any, given: Any) -> bool:
    """Whether two figures are the same but for rounding."""
    if isinstance(stated, int | float) and isinstance(given, int | float):
        return math.isclose(stated, given, rel_tol=_SAME, abs_tol=1e-12)
    return bool(stated == given)


def _estimates(metrics: Any) -> dict[str, Mapping[str, Any]]:
    found = metrics if isinstance(metrics, Mapping) else {}
    return {name: each for name, each in found.items() if isinstance(each, Mapping)}
