"""Points that answer a question, those that answer it in part, and the run that is missing. Data only."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from twinlens.comparison.question import DEVICE, LENS, Question, role_of
from twinlens.comparison.side import Side
from twinlens.record.codec import by_fields
from twinlens.record.estimate import Estimate
from twinlens.record.executor.field import Role

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
