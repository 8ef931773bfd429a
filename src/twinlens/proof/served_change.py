"""The change of a falsifier as a setting of a served run: a closed loop of twice the requests, or another precision.

Open arrivals cannot take turns (see `spec/slices.py`), so a run at a rate is tried as a closed loop of as many requests
as it decoded together. A launched server is started once for each value; a server that is up only gets another load.
"""

from __future__ import annotations

from typing import Any

from twinlens.executors.launch.recipe import TORCH_NAMES
from twinlens.executors.registry import capabilities
from twinlens.record.executor.facts import Facts
from twinlens.spec.study import RunSpec

ATTACHED = (
    "the weights of a server that is up cannot be changed from here; let Twinlens launch it, or start a second one "
    "with half the bits and compare the two"
)
_FULL = "the server runs at most {} requests at once, and {} would be needed"
_ALONE = ("rate_per_s", "admission", "in_flight", "timeout_s")
"""Settings of a point that a closed loop in turns does not have."""


def requests_in_flight(spec: RunSpec, together: int | None) -> int:
    """Those of a closed loop that does the work of this run. `together`: how many it decoded at once."""
    return spec.point.concurrency or together or 1


def why_not_doubled(requests: int, facts: Facts | None) -> str | None:
    """Why twice the requests would not be computed together, as the server says; None where they may."""
    most = facts.executor.value("serving.max_sequences") if facts else None
    return _FULL.format(most, 2 * requests) if isinstance(most, int) and most < 2 * requests else None


def is_attached(spec: RunSpec) -> bool:
    """Whether somebody else started the server."""
    return capabilities(spec.executor.kind).runs == "elsewhere"


def serves(spec: RunSpec, precision: str) -> bool:
    """Whether the executor of a run can be asked for a precision; a launched server only for a mere cast."""
    can = capabilities(spec.executor.kind)
    if can.precisions is None:
        return can.prompts != "text" or precision in TORCH_NAMES
    return precision in can.precisions


def as_closed_loop(data: dict[str, Any], requests: int) -> dict[str, Any]:
    """The spec with the same requests, `requests` of them at any moment, by one client and without a stall."""
    point = {name: value for name, value in data["point"].items() if name not in _ALONE}
    options = {name: value for name, value in data["executor"]["options"].items() if name != "clients"}
    return data | {
        "workload": data["workload"] | {"arrival": {"kind": "closed"}},
        "point": point | {"concurrency": requests},
        "executor": data["executor"] | {"options": options},
        "protocol": {name: value for name, value in data["protocol"].items() if name != "stall"},
    }
