"""Reading what servers print: settings out of nested JSON, out of labels of a metric, out of a line of name=value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from twinlens.record.executor.record import Fact, declared
from twinlens.spec.model.quantised import QUANTISED_BY, UNQUANTISED

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_PAIR = re.compile(r"(\w+)=('[^']*'|\[[^\]]*\]|\{[^}]*\}|\([^)]*\)|[^,\s()]+)")
_FORMATS = {
    "float32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16",
    "fp8": "fp8-e4m3", "fp8_e4m3": "fp8-e4m3", "float8_e4m3fn": "fp8-e4m3", "fp8_e5m2": "fp8-e5m2",
    "int8_per_token_head": "int8", "int4_per_token_head": "int4",
}  # fmt: skip


def flat(nested: Any) -> dict[str, Any]:
    """The leaves of nested JSON by their last name; of two with one name the first."""
    leaves: dict[str, Any] = {}
    if isinstance(nested, Mapping):
        for key, value in nested.items():
            for name, leaf in flat(value).items() if isinstance(value, Mapping) else ((str(key), value),):
                leaves.setdefault(name, leaf)
    return leaves


def labels(metrics: str, name: str) -> dict[str, str]:
    """The labels of the first sample of a metric in Prometheus' text; empty where there is none."""
    for line in metrics.splitlines():
        if line.startswith(name) and line[len(name) : len(name) + 1] == "{":
            return dict(_LABEL.findall(line))
    return {}


def pairs(log: str, marker: str) -> dict[str, str]:
    """name=value of the first line that holds `marker`, quotes removed."""
    line = next((line.partition(marker)[2] for line in log.splitlines() if marker in line), "")
    values: dict[str, str] = {}
    for name, value in _PAIR.findall(line):
        values.setdefault(name, value.strip("'"))
    return values


def first_known(values: Mapping[str, Any], names: Mapping[str, Iterable[str]], source: str) -> dict[str, Fact]:
    """Facts by field, from the first of the runtime's names that has a value. A server's word is declared, not seen."""
    facts: dict[str, Fact] = {}
    for field, candidates in names.items():
        value = next(
            (plain_setting(values[key]) for key in candidates if plain_setting(values.get(key)) is not None), None
        )
        if value is not None:
            facts[field] = declared(value, source)
    return facts


def plain_setting(value: Any) -> Any:
    """Text as the number, switch or nothing that it spells."""
    if not isinstance(value, str):
        return value
    if value in ("", "None", "null"):
        return None
    if value in ("True", "False"):
        return value == "True"
    return int(value) if re.fullmatch(r"-?\d+", value) else value


def version_on(page: Any, source: str) -> dict[str, Fact]:
    """The version of the runtime, of a page that says it."""
    said = page.get("version") if isinstance(page, Mapping) else None
    return {"software.runtime.version": declared(said, source)} if isinstance(said, str) and said else {}


def graphs(eager: Any, source: str) -> dict[str, Fact]:
    """Whether graphs are captured, of a setting that leaves them out; no fact where it is not said."""
    words = {"True": "none (eager)", "False": "captured"}.get(str(eager))
    return {} if words is None else {"serving.graphs": declared(words, source)}


def degrees(values: Mapping[str, Any], suffix: Mapping[str, str], source: str) -> dict[str, Fact]:
    """Degrees of parallelism by kind, from the runtime's name of each; no fact where one is not said."""
    sizes = {f"{kind}_parallel": values.get(name) for kind, name in suffix.items()}
    if None in sizes.values():
        return {}
    return {"serving.parallel": declared({name: int(str(size)) for name, size in sizes.items()}, source)}


def tensor_format(word: Any) -> str | None:
    """A runtime's word for a number format in ours; None for one that says nothing ("auto")."""
    name = str(word or "").removeprefix("torch.")
    return _FORMATS.get(name, name if name in _FORMATS.values() else None)


def quantisation(values: Mapping[str, Any], source: str, *, none_says: bool) -> dict[str, Fact]:
    """A server's word for its quantisation. `none_says`: None is that there is none, and not that nobody asked for
    one."""
    word = plain_setting(values.get("quantization"))
    if "quantization" not in values or (word is None and not none_says):
        return {}
    said = UNQUANTISED if word is None else f"{QUANTISED_BY}{word}"
    return {"precision.detail": declared(said, f"{source}, quantization")}


def formats(weights: Any, cache: Any, source: str) -> dict[str, Fact]:
    """The formats a server says it keeps weights and KV cache in; a cache at "auto" has the format of the weights."""
    kept = tensor_format(weights)
    cached = tensor_format(cache) or (kept if str(cache) == "auto" else None)
    kinds = {"precision.weights": kept, "precision.activations": kept, "precision.kv": cached}
    return {field: declared(value, source) for field, value in kinds.items() if value is not None}
