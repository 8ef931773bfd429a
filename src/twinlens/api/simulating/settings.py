"""Settings of a simulation: of the spec, of the engine's rules, of the machine; and policies of batching."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from twinlens.errors import BadInput, nearest
from twinlens.simulation.rules import Rules
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.document import toml_value

UNREADABLE = "TL250"
FACTORS = ("bandwidth", "compute", "overhead")
"""What of a machine may be so many times as fast."""
_SHORT = {"prompt": "workload.input_tokens", "answer": "workload.output_tokens"}
_OF_POINT = {"rate": "rate_per_s", "rate_per_s": "rate_per_s", "precision": "precision", "concurrency": "concurrency"}
_POLICY = re.compile(r"(engine:)?(static|dynamic|continuous)(?:\(([^()]*)\))?")


@dataclass(frozen=True, slots=True)
class Settings:
    """`spec`: as `--set` of a spec. `rules`: by the engine's flag. `factors`: how many times as fast. `device`: another
    one than the law is of. `changed`: the words, as they were said."""

    spec: tuple[str, ...] = ()
    rules: dict[str, Any] = field(default_factory=dict)
    factors: dict[str, float] = field(default_factory=dict)
    device: str | None = None
    changed: tuple[str, ...] = ()
    of_load: tuple[str, ...] = ()

    @property
    def without_change(self) -> Settings:
        """The same without what changes the machine, the rules, the format or the lengths."""
        return Settings(spec=tuple(each for each in self.spec if each in self.of_load), of_load=self.of_load)


def settings_of(words: Iterable[str]) -> Settings:
    """Each word as what it sets. Raises BadInput (TL250); what is of the spec is read with the spec."""
    spec, rules, factors, device, told = list[str](), dict[str, Any](), dict[str, float](), None, list[str]()
    of_load = list[str]()
    for word in words:
        told.append(word)
        name, equals, value = (part.strip() for part in word.partition("="))
        if "*" in name and not equals:
            of, factor = _factor(word)
            factors[of] = factor
        elif not equals or not name or not value:
            raise BadInput(f"--set wants NAME=VALUE, or bandwidth*2, not {word[:60]!r}", code=UNREADABLE)
        elif name == "device":
            device = value
        elif name in _KINDS:
            rules[name] = _rule(name, value)
        elif name in _SHORT:
            spec.append(f'{_SHORT[name]}={{kind="fixed", value={_whole(name, value)}}}')
        elif name in _OF_POINT:
            spec.append(f"sweep.{_OF_POINT[name]}=[{_literal(value)}]")
            of_load += spec[-1:] if name != "precision" else []
        else:
            spec.append(word)
            of_load.append(word)
    changed = tuple(told) if len(of_load) < len(told) else ()
    return Settings(tuple(spec), rules, factors, device, changed, tuple(of_load))


_KINDS = {each.name: str(each.type) for each in fields(Rules)}


def _rule(name: str, value: str) -> Any:
    """The value of a flag, of its own type. Raises BadInput."""
    kind, read = _KINDS[name], toml_value(value)
    if read in ("none", "None") and "None" in kind:
        return None
    fits = {"bool": isinstance(read, bool), "float": _is_number(read), "int": _is_number(read) and read == int(read)}
    plain = kind.removesuffix(" | None")
    if plain in fits and not fits[plain]:
        raise BadInput(f"{name} is {_WORDS[plain]}, not {value[:40]!r}", code=UNREADABLE)
    return float(read) if plain == "float" else int(read) if plain == "int" else read


_WORDS = {"bool": "true or false", "float": "a number", "int": "a whole number"}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _factor(word: str) -> tuple[str, float]:
    of, _, times = word.partition("*")
    if (name := of.strip()) not in FACTORS:
        raise BadInput(f"{name[:40]!r} has no factor; {nearest(name, FACTORS)}", code=UNREADABLE)
    factor = toml_value(times.strip())
    if not _is_number(factor) or factor <= 0:
        raise BadInput(f"{name} is times a number above 0, not {times.strip()[:40]!r}", code=UNREADABLE)
    return name, float(factor)


def _whole(name: str, value: str) -> int:
    if not value.isdecimal() or not 0 < int(value[:12]) < 10**9:
        raise BadInput(f"{name} is a count of tokens from 1 on, not {value[:40]!r}", code=UNREADABLE)
    return int(value)


def _literal(value: str) -> str:
    return ", ".join(json.dumps(toml_value(each.strip())) for each in value.split(","))


@dataclass(frozen=True, slots=True)
class Policy:
    """A way of batching. `where`: "front": requests are held back in front of the engine, as `point.admission` does on
    a real server; "engine": the engine runs batches to their longest answer."""

    name: str
    where: str = "front"
    kind: str = "continuous"
    size: int | None = None
    wait_s: float | None = None

    @property
    def point(self) -> tuple[str, ...]:
        """Its settings of the operating point."""
        if self.where == "engine" or (self.kind == "continuous" and self.size is None):
            return ()
        said = [f'point.admission="{self.kind}"']
        said += [f"point.{'in_flight' if self.kind == 'continuous' else 'batch'}={self.size}"] if self.size else []
        return (*said, *([f"point.timeout_s={self.wait_s!r}"] if self.wait_s is not None else []))

    def rules(self, rules: Rules) -> Rules:
        """The engine's rules under it."""
        if self.where != "engine" or self.kind == "continuous":
            return rules
        kind: Any = self.kind
        return replace(rules, batching=kind, batch_size=self.size or 1, batch_wait_s=self.wait_s or 0.0)


AS_ASKED = Policy("")
"""The policy of the spec, whatever it is."""


def policies_of(text: str) -> tuple[Policy, ...]:
    """ "continuous, static(32), engine:dynamic(32, 50ms)": each once. Raises BadInput (TL250)."""
    found = {}
    for word in _split(text):
        match = _POLICY.fullmatch(word)
        if match is None:
            raise BadInput(
                f"--batching takes continuous, continuous(8), static(32) or dynamic(32,50ms), each with engine: before "
                f"it for batches of the engine itself, not {word[:40]!r}", code=UNREADABLE)  # fmt: skip
        found[word] = _policy(word, "engine" if match[1] else "front", match[2], match[3])
    return tuple(found.values())


def _split(text: str) -> list[str]:
    """Words between commas outside brackets, without blanks."""
    return [each for each in re.split(r",(?![^(]*\))", re.sub(r"\s", "", text)) if each]


def _policy(name: str, where: str, kind: str, inside: str | None) -> Policy:
    from twinlens.api.plan.reading.amount import seconds_of

    size, _, wait = (inside or "").partition(",")
    if size and (not size.isdecimal() or not 0 < int(size[:9]) <= 1_000_000):
        raise BadInput(f"{name}: a batch is a count of requests from 1 on, not {size[:20]!r}", code=UNREADABLE)
    if kind != "continuous" and not size:
        raise BadInput(f"{name}: say of how many requests a batch is: {kind}(32{',50ms' * (kind == 'dynamic')})",
                       code=UNREADABLE)  # fmt: skip
    if bool(wait) != (kind == "dynamic"):
        raise BadInput(f"{name}: a dynamic batch waits for so long: dynamic({size or 32},50ms); no other does",
                       code=UNREADABLE)  # fmt: skip
    if where == "engine" and kind == "continuous" and size:
        raise BadInput(f"{name}: an engine bounds what it runs by --set max_num_seqs={size}", code=UNREADABLE)
    return Policy(name, where, kind, int(size) if size else None, seconds_of("batching", wait) if wait else None)


def front_of(spec: RunSpec) -> str:
    """The policy that a spec has of its own, as `--batching` names it; "" for none."""
    point = spec.point
    size = point.in_flight if point.admission == "continuous" else point.batch
    wait = f",{1000 * point.timeout_s:g}ms" if point.timeout_s and point.admission == "dynamic" else ""
    return "" if point.admission is None else f"{point.admission}({size}{wait})" if size else point.admission


def metric_of(spec: RunSpec) -> str:
    """What decides between policies: the time that the SLO limits, at p99."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    slo = workload.slo
    if slo is not None and slo.ttft_s is None and slo.e2e_latency_s is None and slo.tpot_s is not None:
        return "tpot_s_p99"
    return "e2e_latency_s_p99" if slo is not None and slo.ttft_s is None else "ttft_s_p99"
