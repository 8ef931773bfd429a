"""Questions between two points, the points that answer each, in part or whole, and the run that is missing."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from twinlens.comparison.difference import rule_of_path
from twinlens.comparison.side import Side
from twinlens.errors import BadInput, nearest
from twinlens.record.codec import by_fields
from twinlens.record.estimate import Estimate
from twinlens.record.executor.field import Role
from twinlens.spec.point import Point
from twinlens.spec.precision import PRECISIONS
from twinlens.spec.slo import Slo
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.system.document import Unreadable, toml_value

Standing = Literal["answers", "in part", "no answer"]
Ruling = Literal["within", "beyond", "undecided", "not measured"]
_OTHER_LENS = 10**9
_WEIGHT = {"M": 1000, "V": 10, "Q": 1, "C": 0}


@dataclass(frozen=True, slots=True)
class Unlike:
    """A field in which a point is not what was asked. `has`: None where nobody wrote it down."""

    path: str
    wanted: Any
    has: Any
    role: Role

    def __json__(self) -> dict[str, Any]:
        return {"field": self.path, "wanted": self.wanted, "has": self.has, "role": self.role}


@dataclass(frozen=True, slots=True)
class Limited:
    """A limit, what the point measured, and how the one stands to the other, by the interval where there is one."""

    metric: str
    limit: float
    measured: Estimate
    ruling: Ruling

    def __json__(self) -> dict[str, Any]:
        return by_fields(self, "metric", "limit", "ruling")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One point of the runs held against the question. `standing`: "in part" where nothing that must match differs."""

    side: Side
    unlike: tuple[Unlike, ...]
    limits: tuple[Limited, ...]
    standing: Standing

    def __json__(self) -> dict[str, Any]:
        group = self.side.group
        return {
            "name": self.side.name, "standing": self.standing, "ranked": group.ranked, "label": group.label,
            "runs": [run.id for run in self.side.runs], "unlike": self.unlike,
            "limits": self.limits,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Missing:
    """The run that would answer: what to start from (a run folder, an example), and what to set. `device`: on which
    machine, where the question names one that the start is not of."""

    start: str
    settings: tuple[str, ...]
    device: str | None = None

    @property
    def command(self) -> str:
        """A line to paste into a shell."""
        return shlex.join(
            ["twinlens", "measure", self.start, *(word for each in self.settings for word in ("--set", each))]
        )

    def __json__(self) -> dict[str, Any]:
        return {"command": self.command, "settings": self.settings, "device": self.device}


def candidates(question: Question, sides: Sequence[Side]) -> tuple[Candidate, ...]:
    """Every point held against the question, the nearest first."""
    found = [_held(question, side) for side in sides]
    return tuple(sorted(found, key=lambda each: (distance(each), not each.side.group.ranked)))


def distance(candidate: Candidate) -> int:
    """How far a point is from what was asked: what must match first, then what may vary."""
    return sum(_OTHER_LENS if each.path == LENS else _WEIGHT[each.role] for each in candidate.unlike)


def _held(question: Question, side: Side) -> Candidate:
    unlike = tuple(sorted(_unlike(question, side), key=lambda each: "MVQC".index(each.role)))
    limits = tuple(_limited(question, side, name, limit) for name, limit in question.limits.items())
    standing: Standing = "answers"
    if any(each.role == "M" for each in unlike):
        standing = "no answer"
    elif unlike or not side.group.ranked or any(each.ruling in ("not measured", "undecided") for each in limits):
        standing = "in part"
    return Candidate(side, unlike, limits, standing)


def _unlike(question: Question, side: Side) -> Iterator[Unlike]:
    lens = question.fields.get(LENS, side.lens)
    if lens != side.lens:  # then nothing else can be set beside it
        yield Unlike(LENS, lens, side.lens, role_of(LENS))
        return
    for path, wanted in question.fields.items():
        has = _has(side, path)
        if not _same(path, wanted, has):
            yield Unlike(path, wanted, has, role_of(path))


def _has(side: Side, path: str) -> Any:
    if path == LENS:
        return side.lens
    if path == DEVICE:
        return side.group.machine.name if side.group.machine else None
    value: Any = side.spec
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _same(path: str, wanted: Any, has: Any) -> bool:
    if path == DEVICE:
        return has is not None and str(wanted).casefold() in str(has).casefold()
    if isinstance(has, dict) and not isinstance(wanted, dict):  # a fixed length by its number, an arrival by its kind
        return has == {"kind": "fixed", "value": wanted} or (isinstance(wanted, str) and has.get("kind") == wanted)
    return bool(has == wanted)


def _limited(question: Question, side: Side, name: str, limit: float) -> Limited:
    metric = f"{name}_{question.percentile}"
    measured = side.group.metrics.get(metric) or Estimate.absent(
        "s", f"{metric} is not among the metrics of these runs"
    )
    if measured.value is None:
        return Limited(metric, limit, measured, "not measured")
    low = measured.value if measured.low is None else measured.low
    high = measured.value if measured.high is None else measured.high
    return Limited(metric, limit, measured, "within" if high <= limit else "beyond" if low > limit else "undecided")


def settings_for(candidate: Candidate) -> tuple[str, ...]:
    """What to set in the spec of a point so that it asks what the question does."""
    return tuple(setting(each.path, each.wanted) for each in candidate.unlike if each.path not in (LENS, DEVICE))


def setting(path: str, wanted: Any) -> str:
    """One `--set`: a length that is a number is a fixed one, and tables are TOML."""
    if path.endswith("_tokens") and isinstance(wanted, int):
        wanted = {"kind": "fixed", "value": wanted}
    if path == "workload.arrival" and isinstance(wanted, str):
        wanted = {"kind": wanted}
    return f"{path}={wanted if _is_bare(wanted) else _toml(wanted)}"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items() if item is not None)
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value) if isinstance(value, bool | str) else repr(value)


def _is_bare(value: Any) -> bool:
    """Whether a text needs no quotes in a setting: a word that is nothing else in TOML."""
    plain = isinstance(value, str) and value.replace("-", "").replace("_", "").isalnum() and value[0].isalpha()
    return plain and value not in ("true", "false", "inf", "nan")


# Questions: the fields of a run that would answer a decision, and limits on what it must have measured.

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
