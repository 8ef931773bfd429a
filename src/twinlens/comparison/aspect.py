"""Aspects: the part of a measurement that a field belongs to, and what a difference in it does to a comparison.

The roles of executor fields are those of `record/executor/field.py` (M must match, V may vary, Q qualifies, C is
context), but for those below: a precision may vary, as it is said beside every number, and texts that each runtime
words in its own way only qualify.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twinlens.record.executor.field import FIELDS, Field, Role
from twinlens.stats.metrics.definition import definition_of

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
