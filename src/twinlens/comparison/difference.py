"""Differences of two sides: what was asked, field by field, and what really ran. Data only; no judgement yet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from twinlens.comparison.aspect import RULES, Aspect, rule_of_path
from twinlens.comparison.side import Side
from twinlens.record.codec import by_fields
from twinlens.record.executor.field import FIELDS, Role
from twinlens.spec.unsaid import UNSAID_PATHS

_TABLES = ("workload", "point", "protocol")
_IS_TUNED = "workload.method"
_FORMATS = {"point.precision", "executor.options.kv_format"}


@dataclass(frozen=True, slots=True)
class Difference:
    """A field in which two sides differ. `a`, `b`: the values of each side's runs, each once; none where it is unknown.

    `field`: a path of the spec ("point.batch", `is_asked`) or an executor field ("software.driver.version").
    """

    field: str
    label: str
    aspect: Aspect
    role: Role
    a: tuple[Any, ...]
    b: tuple[Any, ...]
    is_asked: bool = False

    @property
    def is_known(self) -> bool:
        """Whether both sides say it; a value beside an unknown one may be a difference or none."""
        return self.is_asked or bool(self.a and self.b)

    def __json__(self) -> dict[str, Any]:
        return by_fields(self, "field", "label", "aspect", "role", "is_asked") | {"is_known": self.is_known}


def differences(a: Side, b: Side, *, is_weak: bool = False) -> tuple[Difference, ...]:
    """Everything in which they differ and that may matter, gravest role first: asked before observed, in table order.

    `is_weak`: of weak scaling, where the global batch grows with the ranks and so may vary.

    Runs of one side may differ among themselves in what is of the moment (other work): a field differs where the two
    sides share no value. Two unknowns are no difference.
    """
    weights = [set(_values(side, "model.weights_hash")) for side in (a, b)]
    found = _judged(
        [*_asked(a, b), *_observed(a, b)],
        a.lens,
        is_weak,
        bool(weights[0] & weights[1]),
        _are_drawn(a) and _are_drawn(b),
    )
    return tuple(sorted(found, key=lambda one: "MVQC".index(one.role)))


def _asked(a: Side, b: Side) -> Iterator[Difference]:
    ours, theirs = dict(_flat(a.spec)), dict(_flat(b.spec))
    for path in dict.fromkeys((*ours, *theirs)):
        if path in UNSAID_PATHS and not (path in ours and path in theirs):
            continue  # nobody said it of a watched program: the finding own-data says that it is not known
        mine, other = ours.get(path), theirs.get(path)
        if mine != other:
            rule = rule_of_path(path)
            label = path.rpartition(".")[2].replace("_", " ")
            yield Difference(path, label, rule.aspect, rule.role, (mine,), (other,), is_asked=True)


def _flat(spec: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a spec by path; an option of the executor is a field, a length or an arrival is one value."""
    for table in _TABLES:
        for name, value in spec[table].items():
            yield f"{table}.{name}", value
    for name, value in spec["executor"].items():
        if name != "options":
            yield f"executor.{name}", value
    for name, value in spec["executor"]["options"].items():
        yield f"executor.options.{name}", value


def _observed(a: Side, b: Side) -> Iterator[Difference]:
    for key, rule in RULES.items():
        if FIELDS[key].lens not in ("both", a.lens):
            continue
        mine, other = _values(a, key), _values(b, key)
        if (mine or other) and not set(mine) & set(other):
            yield Difference(
                key, FIELDS[key].label, rule.aspect, rule.role, tuple(mine.values()), tuple(other.values())
            )


def _values(side: Side, key: str) -> dict[str, Any]:
    """What a side's runs say of a field, each value once, by its text."""
    said = (run.facts.executor.value(key) for run in side.runs if run.facts)
    return {json.dumps(value, sort_keys=True): value for value in said if value is not None}


def _are_drawn(side: Side) -> bool:
    """Whether a side's weights are random ones: each repeat draws its own by its seed."""
    facts = [run.facts.executor.facts.get("model.weights_hash") for run in side.runs if run.facts]
    return bool(facts) and all(fact is not None and "seed" in fact.source for fact in facts)


def _judged(
    found: list[Difference], lens: str, is_weak: bool, is_one_model: bool, are_drawn: bool
) -> Iterator[Difference]:
    """The roles that depend on other fields: formats that the precision asked for brings with it, weights by seed."""
    asked = {one.field for one in found if one.is_asked}
    for one in found:
        if one.aspect == "precision" and not one.is_asked and _IS_TUNED in asked and "point.precision" not in asked:
            yield replace(one, role="C")  # an adapter brings the formats of the weights below it
        elif one.aspect == "precision" and not one.is_asked:
            yield replace(one, role="V" if asked & _FORMATS else one.role)
        elif one.field == "workload.model" and is_one_model:
            yield replace(one, role="C")  # another path or name of the same weights
        elif one.field == "workload.global_batch" and is_weak:
            yield replace(one, aspect="batching", role="V")
        elif one.field == "point.batch" and lens == "training":
            yield replace(one, role="C")  # a training workload has a batch of its own
        elif one.field == "model.weights_hash" and ("protocol.seed" in asked or are_drawn):
            yield replace(one, aspect="content", role="Q")  # weights that a seed made
        else:
            yield one


def of_role(found: Iterable[Difference], *roles: Role) -> tuple[Difference, ...]:
    """Those of some roles, in order."""
    return tuple(one for one in found if one.role in roles)
