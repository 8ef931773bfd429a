"""The JSON schema of a spec file, for editors that complete and check TOML; the models remain the law."""

from __future__ import annotations

from typing import Any

from twinlens.reporting.reference.option import option_rows
from twinlens.spec.precision import AS_SERVED, PRECISIONS
from twinlens.spec.slo import list_slos
from twinlens.spec.study import Study

Schema = dict[str, Any]

_TYPES = {"true or false": "boolean", "text": "string", "list": "array", "table": "object"}


def spec_schema() -> Schema:
    """The schema of a spec, JSON Schema 2020-12, with the options of the executors installed here.

    It accepts what a file may say in short: an SLO or a free length by its name, lengths from a file. What needs two
    fields at once (a rate without an open loop) only `twinlens check` can tell.
    """
    schema = _plain(Study.model_json_schema(by_alias=True))
    parts = schema["$defs"]
    for part in parts.values():
        if "const" in part.get("properties", {}).get("kind", {}):
            part["required"] = list(dict.fromkeys(["kind", *part.get("required", [])]))
    requests = parts["InferenceWorkload"]["properties"]
    _or(requests, "slo", {"enum": list(list_slos())})
    _or(requests, "output_tokens", {"const": "free"})
    parts["Empirical"]["properties"] |= {
        "path": {"type": "string", "description": "A CSV that holds the lengths."},
        "column": {"type": "string", "description": "The column of the CSV."},
    }
    parts["Empirical"]["required"] = ["kind"]
    point = parts["Point"]["properties"]
    point["precision"]["enum"] = [*PRECISIONS, AS_SERVED.name]
    schema["properties"]["sweep"]["properties"] = {
        name: {"type": "array", "minItems": 1, "items": field} for name, field in point.items()
    }
    schema["properties"]["variants"]["items"]["additionalProperties"] = {}  # a value that is no list stands for itself
    parts["ExecutorSpec"]["properties"]["options"]["properties"] = _options()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A Twinlens spec", **schema}


def _or(properties: Schema, name: str, short: Schema) -> None:
    """Let a field be said by a word in place of its table."""
    field = properties[name]
    described = {key: field.pop(key) for key in ("description", "default", "examples") if key in field}
    properties[name] = {"anyOf": [short, field], **described}


def _options() -> Schema:
    by_name: dict[str, list[Schema]] = {}
    for row in option_rows():
        words = f"{row.description} Of {', '.join(row.executors)}."
        kind = {"type": _TYPES[row.type]} if row.type in _TYPES and row.name != "force_length" else {}
        by_name.setdefault(row.name, []).append({"description": words, **kind})
    return {name: rows[0] if len(rows) == 1 else {"anyOf": rows} for name, rows in by_name.items()}


def _plain(value: Any, *, names: bool = False) -> Any:
    """Without titles made of names, null, for which TOML has no word, and what is no JSON Schema. `names`: the keys are
    fields' own."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {
        key: item if key in ("default", "examples") else _plain(item, names=key in ("properties", "$defs"))
        for key, item in value.items()
        if names or (key not in ("title", "discriminator") and not (key == "default" and item is None))
    }
    options = [item for item in kept.get("anyOf", []) if item != {"type": "null"}]
    if "anyOf" in kept and not names:
        kept["anyOf"] = options
    return {**{key: item for key, item in kept.items() if key != "anyOf"}, **options[0]} if len(options) == 1 else kept
