"""Figures of a pack beside those that its own rows give: each that differs is named."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from twinlens.stats.run_summary import to_json
from twinlens.stats.summary.group import Summary
from twinlens.system.document import json_of

FIGURES = "figures.json"
"""The summary of a run, in its folder of a pack; not summary.json, which reading renews."""
_SAME = 1e-6  # the last digits of a float are the processor's
_ABSENT = "nothing"
_PARTS = ("value", "low", "high", "label")
_OF_PROGRAM = ("twinlens", "schema")


def figures_of(packed: Mapping[str, Any], summary: Summary, *, whole: bool) -> Iterator[tuple[str, Any, Any]]:
    """Each figure: its name, what figures.json says, and what the rows say. `whole`: every word is compared, as the
    same version wrote it; else the numbers that it states."""
    if not packed:
        yield FIGURES, _ABSENT, "figures of its rows"
        return
    stated, given = _parts(packed), _parts(json_of(json.dumps(to_json(summary))))
    for place in dict.fromkeys([*stated, *given]) if whole else stated:
        said, true = stated.get(place, _ABSENT), given.get(place, _ABSENT)
        if place[0] not in _OF_PROGRAM and (whole or (place[-1] in _PARTS and said is not None)):
            name = ".".join(place[1:] if place[0] == "metrics" else place).removesuffix(".value")
            if _is_number(said) or _is_number(true) or not is_same(said, true):
                yield name, said, true


def is_same(stated: Any, given: Any) -> bool:
    """Whether two figures are the same but for rounding."""
    if _is_number(stated) and _is_number(given):
        return math.isclose(stated, given, rel_tol=_SAME, abs_tol=1e-12)
    return bool(stated == given)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parts(data: Any, place: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every value of nested tables and lists, by where it stands; an empty one stands for itself."""
    items = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ()
    found = {spot: each for key, value in items for spot, each in _parts(value, (*place, str(key))).items()}
    return found or {place: data}
