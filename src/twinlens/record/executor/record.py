"""The executor as a set of facts, each with its source, and how complete that record is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from twinlens.errors import BadInput, nearest
from twinlens.record.codec import OPTIONAL, reads
from twinlens.record.executor.field import FIELDS, Field
from twinlens.record.foreign_text import without_paths
from twinlens.spec.precision import Lens

__all__ = [
    "FIELDS",
    "Completeness",
    "ExecutorRecord",
    "Fact",
    "Field",
    "PrecisionCheck",
    "declared",
    "observed",
    "unknown",
]

Capture = Literal["observed", "declared", "unknown"]
Support = Literal["native", "emulated", "storage-only", "unknown"]
Agreement = Literal["agrees", "differs", "unknown"]
_STRENGTH: dict[Capture, int] = {"unknown": 0, "declared": 1, "observed": 2}

# The method's rule names accelerator, runtime, compiler, precision and operating point; the last two are M
# fields already. A remote server may hide its framework but not its runtime, so either will do.
_NAMED: tuple[tuple[str, ...], ...] = (
    ("accelerator.product",),
    ("software.framework.version", "software.runtime.version"),
    ("compiler.name",),
)
_ENVIRONMENT = "software.environment"
_SOFTWARE = ("software.framework.version", "software.runtime.version", "software.driver.version")


@dataclass(frozen=True, slots=True)
class Fact:
    """A JSON value, how it was captured and from where; None exactly when it is unknown, with a reason."""

    value: Any
    capture: Capture
    source: str
    reason: str | None = field(default=None, metadata=OPTIONAL)

    def __post_init__(self) -> None:
        if (self.value is None) != (self.capture == "unknown"):
            raise ValueError(f"a fact has a value or is unknown, not {self.value!r} {self.capture}")
        if self.capture == "unknown" and not self.reason:
            raise ValueError("an unknown fact says why")


def observed(value: Any, source: str) -> Fact:
    """Read from the running system. `source` names the file, call or query."""
    return Fact(value, "observed", source)


def declared(value: Any, source: str) -> Fact:
    """Said by somebody and not verified. `source` names who or which file."""
    return Fact(value, "declared", source)


def unknown(reason: str) -> Fact:
    """Not captured, and why."""
    return Fact(None, "unknown", "none", reason)


@dataclass(frozen=True, slots=True)
class Completeness:
    """How whole a record is for one lens; `missing` lists the field ids in the way, in the table's order."""

    verdict: Literal["executor-characterised", "partially-characterised", "vendor-number"]
    missing: tuple[str, ...]


def _facts(data: Any) -> Any:
    """The facts by id, which run.json holds without a name of their own; versions before kept paths in one of them."""
    known = data.get(_ENVIRONMENT)
    if isinstance(known, Mapping) and isinstance(known.get("value"), Mapping):
        masked = {name: without_paths(str(value)) for name, value in known["value"].items()}
        data = {**data, _ENVIRONMENT: {**known, "value": masked}}
    return {"facts": data}


@reads(_facts)
@dataclass(frozen=True, slots=True)
class ExecutorRecord:
    """Facts by field id. Raises BadInput (TL210) on an id that is not in FIELDS."""

    facts: Mapping[str, Fact]

    def __post_init__(self) -> None:
        for key in self.facts:
            if key not in FIELDS:
                raise BadInput(f"unknown executor field {key!r}; {nearest(key, FIELDS)}", code="TL210")
        object.__setattr__(self, "facts", dict(self.facts))  # ours: the caller may change theirs

    def __json__(self) -> Mapping[str, Fact]:
        """Facts by id, in the table's order."""
        return {key: self.facts[key] for key in FIELDS if key in self.facts}

    def value(self, key: str) -> Any:
        """The value of one field; None where it is unknown or absent."""
        fact = self.facts.get(key)
        return None if fact is None else fact.value

    def merged(self, other: ExecutorRecord | Mapping[str, Fact]) -> ExecutorRecord:
        """Both records as one: observed beats declared beats unknown, and between equals `other` wins."""
        facts = dict(self.facts)
        for key, fact in (other.facts if isinstance(other, ExecutorRecord) else other).items():
            if key not in facts or _STRENGTH[fact.capture] >= _STRENGTH[facts[key].capture]:
                facts[key] = fact
        return ExecutorRecord(facts)

    def hash(self) -> str:
        """sha256 over the known identity values, sorted: one stack, one hash, however captured."""
        identity = {
            key: fact.value for key, fact in self.facts.items() if FIELDS[key].identity and fact.value is not None
        }
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def completeness(self, lens: Lens) -> Completeness:
        """The verdict for one lens: every M field and the named stack must be known."""
        known = {key for key, fact in self.facts.items() if fact.value is not None}
        required = [group for group in _NAMED if known.isdisjoint(group)]
        missing = {group[0] for group in required} | {
            key for key, f in FIELDS.items() if f.role == "M" and f.lens in ("both", lens) and key not in known
        }
        ordered = tuple(key for key in FIELDS if key in missing)
        if known.isdisjoint(_SOFTWARE):
            return Completeness("vendor-number", ordered)
        return Completeness("partially-characterised" if ordered else "executor-characterised", ordered)


@dataclass(frozen=True, slots=True)
class PrecisionCheck:
    """The declared format of one tensor class beside the one found in memory or in the kernels that ran.

    `tensor_class` is one of spec.precision.TENSOR_CLASSES or "compute". `support` says whether the hardware
    computes in the observed format (or the declared one where none was observed). `evidence` names what was
    looked at.
    """

    tensor_class: str
    declared: str
    observed: str | None
    verdict: Agreement
    support: Support
    evidence: str
