"""The spec of a server that is up already, from what it said of itself: nobody has to write a file for that."""

from __future__ import annotations

import re
from typing import Any

from twinlens.errors import BadInput
from twinlens.spec.precision import AS_SERVED
from twinlens.spec.source.settings import choose_arrival, variants_in

_CONCURRENCY = (1, 4, 16)
"""Where nobody says how hard: closed loops, which no server is too slow for."""
_ANOTHERS = ("executor.", "precision", "point.precision", "batch", "point.batch")


def usual_load() -> dict[str, Any]:
    """The load where no spec is given: lengths of a short chat, one repeat, no SLO."""
    return {
        "workload": {
            "kind": "inference",
            "input_tokens": {"kind": "fixed", "value": 256},
            "output_tokens": {"kind": "fixed", "value": 128},
        },
        "protocol": {"repeats": 1, "steady_s": 20.0},
    }


def fit_steady(data: dict[str, Any]) -> None:
    """Ask no longer steady time of a run than a third of its duration, where that is given."""
    protocol = _table(data, "protocol")
    duration_s = protocol.get("duration_s")
    if isinstance(duration_s, int | float) and duration_s > 0:
        protocol["steady_s"] = min(protocol["steady_s"], round(duration_s / 3, 3))


def attached(data: dict[str, Any], options: dict[str, Any], model: str) -> dict[str, Any]:
    """The load of spec data on the server of these options of openai-http, which serves `model`.

    What was said of another executor is left out: its options, precision and batch, and sweeps over them.
    """
    own = {
        "name": data.get("name") or name_of(model),
        "executor": {"kind": "openai-http", "options": options},
        "workload": {**_table(data, "workload"), "kind": "inference", "model": model},
        "point": {**_without(_table(data, "point"), _ANOTHERS), "precision": AS_SERVED.name},
        "sweep": _without(_table(data, "sweep"), _ANOTHERS),
        "variants": [kept for grid in variants_in(data) if (kept := _without(grid, _ANOTHERS))],
        "protocol": _without(_table(data, "protocol"), ("stall",)),
    }
    return {**data, **own}


def refuse_training(data: dict[str, Any], where: str) -> None:
    """Raises BadInput (TL202) for a spec of the other lens."""
    if _table(data, "workload").get("kind") == "training":
        raise BadInput(f"{where} is a spec of training; a server that is up is measured at inference", code="TL202")


def with_some_load(data: dict[str, Any]) -> None:
    """Ask for closed loops where neither the spec nor its settings say how hard."""
    choose_arrival(data)
    if "arrival" not in _table(data, "workload"):
        data["sweep"] = {**_table(data, "sweep"), "concurrency": list(_CONCURRENCY)}
        choose_arrival(data)


def name_of(model: str) -> str:
    """A name for folders: the last part of the served name, in letters that a folder may have."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", model.rstrip("/").rpartition("/")[2]).strip("-._")
    return plain[:60] or "server"


def _without(table: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if not key.startswith(names)}


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    table = data.get(name)
    return table if isinstance(table, dict) else {}
