"""Questions: the fields of a run that would answer a decision, and limits on what it must have measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from twinlens.comparison.aspect import rule_of_path
from twinlens.errors import BadInput, nearest
from twinlens.record.executor.field import Role
from twinlens.spec.point import Point
from twinlens.spec.precision import PRECISIONS
from twinlens.spec.slo import Slo
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.system.document import Unreadable, toml_value

UNREADABLE = "TL242"
LENS, DEVICE = "lens", "device"
_LENSES = ("training", "inference", "collective")
_NOT_FINITE = ("nan", "inf", "infinity")  # TOML reads them in lower case only
_LIMITS = ("ttft_s", "tpot_s", "itl_s", "e2e_latency_s")
_NEVER = ("workload.kind", "workload.slo", "executor.device")
"""What a spec says that is asked in another way, or is of no run but of the machine that reads it."""


@dataclass(frozen=True, slots=True)
class Question:
    """`fields`: wanted values by path ("point.precision", "workload.model", "lens", "device").

    `limits`: the most that a metric may be, in seconds, at `quantile` of the requests.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    quantile: float = 0.99

    @property
    def percentile(self) -> str:
        """The quantile as metrics name it: "p99", "p99.9"."""
        return f"p{100 * self.quantile:g}"


def question_of(text: str) -> Question:
    """ "lens=inference,precision=bf16,rate_per_s=8,slo.ttft_s=0.5,device=H100": fields by their name or their path.

    Raises BadInput (TL242) for a field that does not exist, one that is asked twice, and a limit that is none.
    """
    if not text.isprintable():
        raise BadInput("a question is printable text; it holds a control character", code=UNREADABLE)
    fields: dict[str, Any] = {}
    slo: dict[str, Any] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, word = (each.strip() for each in part.partition("="))
        if not equals or not word:
            raise BadInput(f"a question is fields with values, as in precision=bf16, not {part!r}", code=UNREADABLE)
        path = path_of(name)
        kept = slo if path.startswith("workload.slo.") else fields
        key = path.removeprefix("workload.slo.")
        if key in kept:
            raise BadInput(f"{name} is asked twice", code=UNREADABLE)
        kept[key] = _value(word)
    if not fields and not slo:
        raise BadInput("ask for what? Give fields: --for lens=inference,precision=bf16,rate_per_s=8", code=UNREADABLE)
    _refuse_unknown(fields)
    return Question(fields, *_limits(slo))


def question_of_spec(spec: RunSpec) -> Question:
    """Everything that one run of a spec asks: workload, point and runtime; its protocol is how, not what."""
    asked = spec.to_dict()
    fields: dict[str, Any] = {LENS: spec.lens, "executor.kind": spec.executor.kind}
    for table in ("workload", "point"):
        for name, value in asked[table].items():
            path = f"{table}.{name}"
            if value is not None and path not in _NEVER and rule_of_path(path).role != "C":
                fields[path] = value
    slo = asked["workload"].get("slo") or {}
    return Question(
        fields, *_limits({name: value for name, value in slo.items() if value is not None and name != "name"})
    )


def path_of(name: str) -> str:
    """The path of a field by its short name. Raises BadInput with the nearest name."""
    if name in (LENS, DEVICE):
        return name
    known = {
        field: f"workload.{field}" for kind in (InferenceWorkload, TrainingWorkload) for field in kind.model_fields
    }
    known |= {field: f"point.{field}" for field in Point.model_fields} | {"executor": "executor.kind"}
    known |= {f"slo.{field}": f"workload.slo.{field}" for field in (*_LIMITS, "quantile")}
    known = {short: path for short, path in known.items() if path not in _NEVER}
    if name in known:
        return known[name]
    if name in known.values() or name.startswith("executor.options."):
        return name
    raise BadInput(f"no run has a field {name[:60]!r}; {nearest(name, (LENS, DEVICE, *known))}", code=UNREADABLE)


def role_of(path: str) -> Role:
    """The role of a field in a comparison: another machine may be what is asked, another lens never."""
    return "M" if path == LENS else "V" if path == DEVICE else rule_of_path(path).role


def _value(word: str) -> Any:
    try:
        return toml_value(word)
    except Unreadable as error:
        raise BadInput(f"a value of the question cannot be read: {error}", code=UNREADABLE) from None


def _refuse_unknown(fields: Mapping[str, Any]) -> None:
    for path, known in ((LENS, _LENSES), ("point.precision", (*PRECISIONS, "as-served"))):
        value = fields.get(path)
        if value is not None and value not in known:
            raise BadInput(f"{path.rpartition('.')[2]}={value} is none; {nearest(str(value), known)}", code=UNREADABLE)
    for path, value in fields.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and not 0 < value < math.inf:
            raise BadInput(f"{path.rpartition('.')[2]}={value} must be a number above 0", code=UNREADABLE)
        if isinstance(value, str) and value.lstrip("+-").casefold() in _NOT_FINITE:
            raise BadInput(f"{path.rpartition('.')[2]}={value} must be a number above 0", code=UNREADABLE)


def _limits(slo: Mapping[str, Any]) -> tuple[dict[str, float], float]:
    """The limits and their quantile. Raises BadInput for what is no SLO."""
    if not slo:
        return {}, 0.99
    try:
        checked = Slo.model_validate(dict(slo))
    except ValueError as error:
        first: Iterable[Any] = error.errors() if hasattr(error, "errors") else ()
        why = next((each["msg"] for each in first), str(error))
        raise BadInput(f"the limits asked for are no SLO: {why}", code=UNREADABLE) from None
    return checked.limits(), checked.quantile
