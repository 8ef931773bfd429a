"""Criteria of a burn-in: what is judged, by which limit, and what follows where it is not met; read from a TOML file.

They are written before the test and kept with it (`burnin.json`), so that no limit is chosen to fit an outcome.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from twinlens.errors import BadInput, nearest
from twinlens.record.codec import OPTIONAL, encode
from twinlens.stats.metrics.energy import REASONS
from twinlens.system.document import read_toml

Otherwise = Literal["note", "quarantine", "reject"]
Unit = Literal["count", "ratio", "z", "per 10 h", "per hour", "°C"]
COUNTERS = {
    "ecc_corrected": "memory errors that ECC corrected",
    "ecc_uncorrected": "memory errors that ECC could not correct",
    "xid": "errors that the driver logged (NVIDIA's Xid)",
    "pcie_replays": "packets that PCIe sent again",
    "link_errors": "errors of links between devices (NVLink, xGMI)",
    "pcie_width": "lanes of PCIe in use",
    "pcie_generation": "generation of PCIe in use",
}
"""The counters of a device. The last two are states, all others totals that only rise."""
THROTTLE_REASONS = (*REASONS.values(), "thermal throttling of a core")
"""Reasons for which a device is slowed down: those of NVML, and of a processor."""
DEFAULT = Path(__file__).with_name("criteria.toml")


@dataclass(frozen=True, slots=True)
class Criterion:
    """One criterion: `what` is judged against `limit` in `unit`; `otherwise`: what follows where it is not met.
    `apart_from`: reasons of throttling that are expected, such as a declared power cap."""

    what: str
    limit: float
    unit: Unit
    otherwise: Otherwise
    apart_from: tuple[str, ...] = field(default=(), metadata=OPTIONAL)


@dataclass(frozen=True, slots=True)
class Kind:
    """What there is to judge: its unit, which side of the limit is good, the range a limit can have, what it is, and
    the counter that it reads ("" for none)."""

    unit: Unit
    side: Literal["at least", "at most"]
    lowest: float
    highest: float
    words: str
    counter: str = ""


_MOST = math.inf
KINDS: Mapping[str, Kind] = {
    "checks": Kind("count", "at most", 0, _MOST, "windows with a result that differs"),
    "failed-windows": Kind("count", "at most", 0, _MOST, "windows that failed"),
    "failed-rows": Kind("count", "at most", 0, _MOST, "steps or requests that failed"),
    "rate-of-last": Kind("ratio", "at least", 0.01, 1, "rate over the last acceptance"),
    "rate-of-fleet": Kind("ratio", "at least", 0.01, 1, "rate over the fleet's median"),
    "stragglers": Kind("z", "at most", 1, 100, "robust z below the fleet's median"),
    "retention": Kind("ratio", "at least", 0.01, 1, "last part over best part"),
    "drift": Kind("per 10 h", "at most", 0.0001, 1, "drift of the rate"),
    "throttled": Kind("ratio", "at most", 0, 1, "share of the time throttled"),
    "temperature": Kind("°C", "at most", 1, 150, "highest temperature"),
    "ecc-corrected": Kind("per hour", "at most", 0, _MOST, "corrected ECC errors", "ecc_corrected"),
    "ecc-uncorrected": Kind("count", "at most", 0, _MOST, "uncorrected ECC errors", "ecc_uncorrected"),
    "xid": Kind("count", "at most", 0, _MOST, "Xid errors", "xid"),
    "pcie-replays": Kind("per hour", "at most", 0, _MOST, "PCIe replays", "pcie_replays"),
    "pcie-width": Kind("count", "at most", 0, 15, "PCIe lanes lost", "pcie_width"),
    "pcie-generation": Kind("count", "at most", 0, 6, "PCIe generations lost", "pcie_generation"),
    "link-errors": Kind("count", "at most", 0, _MOST, "link errors", "link_errors"),
    "all-reduce": Kind("ratio", "at most", 1, 100, "all-reduce time over its fit"),
}
_FIELDS = ("limit", "unit", "otherwise", "except")


def read_criteria(asked: str | Path = "default") -> tuple[Criterion, ...]:
    """The criteria of a TOML file; "default" is the shipped one. Raises BadInput (TL261) in one sentence."""
    path = DEFAULT if str(asked) == "default" else Path(asked)
    try:
        table = read_toml(path)
    except FileNotFoundError:
        raise _refused(f"there is no file {path}; `default` names the shipped criteria") from None
    except (OSError, ValueError) as error:
        raise _refused(f"{path} cannot be read: {error}") from None
    return criteria_of(table, str(path))


def criteria_of(table: Mapping[str, Any], where: str) -> tuple[Criterion, ...]:
    """The criteria of a table as TOML has it; `where` it came from. Raises BadInput (TL261)."""
    if not table:
        raise _refused(f"{where} has no criterion; `twinlens explain burnin` shows the shipped ones")
    return tuple(_criterion(what, each, where) for what, each in table.items())


def _criterion(what: str, said: Any, where: str) -> Criterion:
    if what not in KINDS:
        raise _refused(f"{where}: nobody can judge {what!r}; {nearest(what, KINDS)}")
    kind, place = KINDS[what], f"{where}, [{what}]"
    if not isinstance(said, Mapping):
        raise _refused(f"{place} is no table; it needs a limit and a unit")
    for name in said:
        if name not in _FIELDS:
            raise _refused(f"{place} has no {name!r}; {nearest(name, _FIELDS)}")
    if said.get("unit") != kind.unit:
        raise _refused(f'{place} has the unit {said.get("unit")!r}; it is judged in "{kind.unit}"')
    limit = said.get("limit")
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not math.isfinite(limit):
        raise _refused(f"{place} has the limit {limit!r}, which is no number")
    if not kind.lowest <= limit <= kind.highest:
        sides = f"at least {kind.lowest:g}" + (f" and at most {kind.highest:g}" if kind.highest < _MOST else "")
        raise _refused(f"{place} has the limit {limit:g}, which cannot be judged; it is {sides}")
    otherwise = said.get("otherwise", "quarantine")
    if otherwise not in get_args(Otherwise):
        raise _refused(f"{place} has otherwise = {otherwise!r}; {nearest(str(otherwise), get_args(Otherwise))}")
    return Criterion(what, float(limit), kind.unit, otherwise, _apart_from(what, said, place))


def _apart_from(what: str, said: Mapping[str, Any], place: str) -> tuple[str, ...]:
    reasons = said.get("except", [])
    if reasons and what != "throttled":
        raise _refused(f"{place} has `except`, which only [throttled] has")
    if not isinstance(reasons, list):
        raise _refused(f"{place}: `except` is no list of reasons")
    for reason in reasons:
        if reason not in THROTTLE_REASONS:
            raise _refused(
                f"{place}: no device is slowed down for {reason!r}; {nearest(str(reason), THROTTLE_REASONS)}"
            )
    return tuple(reasons)


def written(criteria: tuple[Criterion, ...]) -> dict[str, Any]:
    """The criteria as the table that `criteria_of` reads."""
    table: dict[str, Any] = {}
    for each in criteria:
        plain = encode(each)
        named = {"limit": plain["limit"], "unit": plain["unit"], "otherwise": plain["otherwise"]}
        table[each.what] = named | ({"except": list(each.apart_from)} if each.apart_from else {})
    return table


def _refused(sentence: str) -> BadInput:
    return BadInput(f"criteria of a burn-in: {sentence}", code="TL261")
