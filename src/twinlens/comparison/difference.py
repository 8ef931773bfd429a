"""Differences of two sides, field by field: of what was asked and of what ran, and the rule of each. Data only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from twinlens.comparison.side import Side
from twinlens.record.codec import by_fields
from twinlens.record.executor.field import FIELDS, Field, Role
from twinlens.record.executor.record import ExecutorRecord
from twinlens.spec.point import UNSAID_PATHS
from twinlens.stats.metrics.definition import definition_of

# Aspects: the part of a measurement that a field belongs to, and what a difference in it does to a comparison.
#
# The roles of executor fields are those of `record/executor/field.py` (M must match, V may vary, Q qualifies, C is
# context), but for those below: a precision may vary, as it is said beside every number, and texts that each runtime
# words in its own way only qualify.

Aspect = Literal[
    "model", "workload", "load", "content", "target", "quality", "precision", "batching", "settings", "compiler",
    "framework", "runtime", "driver", "machine", "power", "operating system", "packages", "other work",
    "energy counter", "protocol",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """What a field is about, and its role in a comparison."""

    aspect: Aspect
    role: Role


# By the path of a spec; the longest that fits counts. What is not named here is caught by its first word, so that a
# field of a later version is never overlooked.
_SPEC: dict[str, Rule] = {
    "executor": Rule("settings", "V"),
    "executor.kind": Rule("runtime", "V"),
    "executor.device": Rule("machine", "C"),
    "executor.options.graph": Rule("compiler", "V"),
    "executor.options.kv_format": Rule("precision", "V"),
    "executor.options.settings": Rule("precision", "V"),
    "executor.options.url": Rule("machine", "Q"),
    "executor.options.api_key_env": Rule("settings", "C"),
    "executor.options.key_header": Rule("settings", "C"),
    "executor.options.start_timeout_s": Rule("settings", "C"),
    "executor.options.host": Rule("settings", "C"),
    "executor.options.python": Rule("settings", "C"),
    "executor.options.dcgm_url": Rule("settings", "C"),
    "workload": Rule("workload", "M"),
    "workload.model": Rule("model", "M"),
    "workload.data": Rule("content", "Q"),
    "workload.prompts": Rule("content", "Q"),
    "workload.slo": Rule("target", "M"),
    "workload.until": Rule("quality", "M"),
    "workload.learning_rate": Rule("quality", "M"),
    "workload.fidelity_prompts": Rule("quality", "Q"),
    "workload.save": Rule("protocol", "C"),
    "workload.checkpoint": Rule("settings", "V"),
    "workload.method": Rule("workload", "V"),  # other work, which may be set beside it if that is said
    "workload.adapter": Rule("workload", "V"),
    "workload.checkpointing": Rule("settings", "V"),
    "workload.optimizer": Rule("settings", "V"),
    "point": Rule("load", "M"),
    "point.precision": Rule("precision", "V"),
    "point.batch": Rule("batching", "V"),
    "point.microbatch": Rule("batching", "V"),
    "point.admission": Rule("batching", "V"),
    "point.timeout_s": Rule("batching", "V"),
    "point.in_flight": Rule("batching", "V"),
    "protocol": Rule("protocol", "Q"),
    "protocol.seed": Rule("content", "Q"),
    "protocol.stall": Rule("protocol", "M"),
    "protocol.kill": Rule("protocol", "M"),
    "protocol.tolerance": Rule("quality", "Q"),
    "protocol.repeats": Rule("protocol", "C"),
    "protocol.retakes": Rule("protocol", "C"),
    "protocol.extend": Rule("protocol", "C"),
    "protocol.telemetry_s": Rule("protocol", "C"),
    "protocol.ceilings": Rule("protocol", "C"),
    "protocol.hopeless_s": Rule("protocol", "C"),
    "protocol.most_s": Rule("protocol", "C"),
    "protocol.width": Rule("protocol", "C"),
    "protocol.guards": Rule("protocol", "C"),
}
_LETTERS: dict[str, Aspect] = {
    "A": "machine", "B": "machine", "B5": "operating system", "C1": "power", "C2": "power", "C4": "energy counter",
    "C5": "other work", "D1": "driver", "D2": "driver", "D3": "framework", "D4": "packages", "D5": "runtime",
    "D6": "compiler", "D7": "settings", "D8": "settings", "E1": "model", "E2": "precision", "E3": "precision",
    "E4": "precision", "E5": "precision", "E6": "quality", "H": "protocol",
}  # fmt: skip
_FIELDS: dict[str, Rule] = {
    "software.python.version": Rule("packages", "Q"),
    "software.python.implementation": Rule("packages", "Q"),
    "software.packages": Rule("packages", "Q"),
    "software.environment": Rule("settings", "Q"),
    "software.affinity": Rule("settings", "V"),
    "software.framework.threads": Rule("settings", "V"),
    "software.framework.interop_threads": Rule("settings", "V"),
    "software.framework.cpu_capability": Rule("machine", "V"),
    "software.framework.deterministic": Rule("settings", "V"),
    "software.framework.matmul_precision": Rule("precision", "V"),
    "tenancy.co_tenants": Rule("other work", "Q"),
    "workload.data_hash": Rule("content", "Q"),
    "decoding.strategy": Rule("protocol", "Q"),
    "decoding.stop": Rule("protocol", "Q"),
    "decoding.cache_hit_ratio": Rule("content", "Q"),
    "model.id": Rule("model", "C"),  # the same weights lie under other names on other machines; the shape must match
    "quality.metric": Rule("quality", "Q"),
    "quality.reference": Rule("quality", "Q"),
}
# Said by the spec too, which is compared field by field; or computed anew by this version for both.
_LEFT_OUT = ("quality.tolerance", "protocol.warmup", "protocol.window", "protocol.repeats", "protocol.interval_method")
_GROUPS = {"energy counter": "energy", "quality": "quality"}


def rule_of_path(path: str) -> Rule:
    """The rule of a path of a spec, such as "point.batch". Raises KeyError for one outside its four tables."""
    while path not in _SPEC:
        path = path.rpartition(".")[0]
        if not path:
            raise KeyError("no table of a spec")
    return _SPEC[path]


def rule_of_field(field: Field) -> Rule | None:
    """The rule of an executor field; None for what is context, or is compared where it was asked."""
    letter = field.letter
    if field.id in _FIELDS:
        rule = _FIELDS[field.id]
        return None if rule.role == "C" else rule
    if field.role == "C" or field.id in _LEFT_OUT or letter[0] in "FGI":
        return None
    aspect = _LETTERS.get(letter) or _LETTERS[letter[0]]
    texts = aspect == "protocol" and field.id != "protocol.profiler"
    return Rule(aspect, "Q" if texts else field.role)


def touches(aspect: str, metric: str) -> bool:
    """Whether a difference in an aspect has a bearing on a metric: targets, quality and energy counters have theirs."""
    if aspect == "target":
        return definition_of(metric).of_slo
    group = _GROUPS.get(aspect)
    return group is None or definition_of(metric).group == group


def is_partial(aspect: str) -> bool:
    """Whether an aspect has a bearing on some metrics only."""
    return aspect == "target" or aspect in _GROUPS


RULES = {id: rule for id, field in FIELDS.items() if (rule := rule_of_field(field)) is not None}
"""Every executor field that is compared, with its rule."""


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


def of_records(a: ExecutorRecord, b: ExecutorRecord, lens: str) -> tuple[Difference, ...]:
    """Observed fields that may matter, in which one executor differs from another or of which one alone knows: each
    with its role as it stands, in table order."""
    found = []
    for key, rule in RULES.items():
        mine, other = a.value(key), b.value(key)
        if FIELDS[key].lens in ("both", lens) and mine != other:
            sides = [() if value is None else (value,) for value in (mine, other)]
            found.append(Difference(key, FIELDS[key].label, rule.aspect, rule.role, sides[0], sides[1]))
    return tuple(found)


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


# The hash of the work that a side did: equal for sides that did the same work, whatever did it and however fast.


def workload_hash(side: Side) -> str:
    """Twelve hex digits over model, lengths, content, arrivals and load; not over how the runtime batches them.

    The model goes in by the hash of its weights where that was observed, as one model lies under several names. Targets
    and quality settings stay out: they judge the work and do not change it.
    """
    asked = side.spec
    paths = {f"{table}.{name}": value for table in ("workload", "point") for name, value in asked[table].items()}
    work = {path: value for path, value in paths.items() if _is_work(path)}
    weights = {str(hash) for run in side.runs if run.facts and (hash := run.facts.executor.value("model.weights_hash"))}
    if len(weights) == 1:
        work["workload.model"] = weights.pop()
    return hashlib.sha256(json.dumps([side.lens, work], sort_keys=True).encode()).hexdigest()[:12]


def _is_work(path: str) -> bool:
    rule = rule_of_path(path)
    return rule.aspect in ("content", "workload") or (rule.role == "M" and not is_partial(rule.aspect))
