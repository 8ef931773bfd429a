"""Every field of a spec as a row of one table, read from the models: path, sentence, type, default, unit, example."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from twinlens.spec.study import Study

Conditions = dict[str, tuple[str, ...]]
"""Where a field exists: the path of a `kind` to the values that have it."""

_UNITS = {"_per_s": "per second", "_s": "seconds", "_nats": "nats", "_tokens": "tokens", "seq_len": "tokens"}
_OWN = "those of its fields"
_LENGTHS = ("value", "min", "max", "mean", "most", "values")
_BOUNDS = {"gt": "above {}", "ge": "at least {}", "lt": "below {}", "le": "at most {}"}
_NAMES = {float: "number", int: "whole number", bool: "true or false", str: "text", dict: "table", Any: "anything"}


@dataclass(frozen=True, slots=True)
class SpecField:
    """One field. `default` and `example` are TOML; `default` is "" where a value is required, "none" where it may be
    left out and nothing stands for it. `where`: the kinds that have it, "" for all. `choices`: a word and what it
    stands for, of a field that names a kind."""

    path: str
    description: str
    type: str
    default: str
    unit: str
    example: str
    where: str
    choices: tuple[tuple[str, str], ...] = ()


@lru_cache(maxsize=1)
def spec_fields() -> tuple[SpecField, ...]:
    """All fields of a spec, in the order of the models; a field that two kinds share stands once."""
    declared: dict[tuple[str, str, str], tuple[FieldInfo, Conditions]] = {}
    tags: dict[str, dict[str, str]] = {}
    for path, info, where in walk(Study):
        known = declared.setdefault((path, info.description or "", _default(info)), (info, where))[1]
        for kind, values in where.items():
            known[kind] = tuple(dict.fromkeys((*known.get(kind, ()), *values)))
        if len(models := models_in(info.annotation)) > 1:
            tags.setdefault(f"{path}.kind", {}).update({tag_of(model): _first_sentence(model) for model in models})
    rows = []
    for (path, _, _), (info, where) in declared.items():
        words = _words({kind: values for kind, values in where.items() if set(values) != set(tags.get(kind, ()))})
        rows.append(_row(path, info, words))
        if f"{path}.kind" in tags:
            rows.append(_kind(f"{path}.kind", tags[f"{path}.kind"], words))
    return tuple(dict.fromkeys(rows))


def _words(where: Conditions) -> str:
    """Conditions in words; the kind of workload is implied by any other."""
    told = {kind: values for kind, values in where.items() if len(where) == 1 or kind != "workload.kind"}
    return " and ".join(f"{kind} is {' or '.join(values)}" for kind, values in told.items())


def walk(
    model: type[BaseModel], prefix: str = "", where: Conditions | None = None
) -> Iterator[tuple[str, FieldInfo, Conditions]]:
    """Dotted path, declaration and conditions of every field below a model; the `kind` of a union is left to it."""
    for name, info in model.model_fields.items():
        if name == "kind" and info.description is None:
            continue
        path = f"{prefix}{info.alias or name}"
        yield path, info, dict(where or {})
        models = models_in(info.annotation)
        for inner in models:
            own = {f"{path}.kind": (tag_of(inner),)} if len(models) > 1 else {}
            yield from walk(inner, f"{path}.", (where or {}) | own)


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def tag_of(model: type[BaseModel]) -> str:
    """The value of `kind` that chooses this member of a union; "" for a model without one."""
    kind = model.model_fields.get("kind")
    return str(get_args(kind.annotation)[0]) if kind and get_args(kind.annotation) else ""


def toml(value: Any) -> str:
    """A value as it stands behind `field = ` in a TOML file, on one line."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def unit_of(path: str) -> str:
    """The unit that a field's name says, "" for none."""
    *parents, name = path.split(".")
    if parents and name in _LENGTHS and parents[-1].endswith("_tokens"):
        return "tokens"
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "tokens" if name == "tokens" else "")


def _row(path: str, info: FieldInfo, where: str) -> SpecField:
    kind, default = _type(info.annotation, info.metadata), _default(info)
    example = toml(info.examples[0]) if info.examples else default
    unit = "" if kind == "table" else unit_of(path)
    return SpecField(path, info.description or "", kind, default, unit, "" if example == _OWN else example, where)


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return ""
    value = info.get_default(call_default_factory=True)
    return (
        _OWN if isinstance(value, BaseModel) and not tag_of(type(value)) else "none" if value is None else toml(value)
    )


def _kind(path: str, kinds: Mapping[str, str], where: str) -> SpecField:
    words, choices = " or ".join(f'"{kind}"' for kind in kinds), tuple(kinds.items())
    return SpecField(path, f"The kind of {path.split('.')[-2]}.", words, "", "", f'"{choices[0][0]}"', where, choices)


def _type(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(parts[0], parts[1:])
    if origin in (Union, UnionType):
        names = [_type(part, metadata) for part in parts if part is not NoneType]
        return " or ".join(dict.fromkeys(names))
    if origin is Literal:
        return " or ".join(toml(part) for part in parts)
    if origin is tuple:
        return f"list of {_type(parts[0])}"
    if models_in(annotation) and origin is None:
        return "table"
    bounds = [bound for constraint in metadata for bound in _bounds(constraint)]
    return " ".join([_NAMES.get(origin or annotation, "table"), " and ".join(bounds)]).strip()


def _bounds(constraint: Any) -> list[str]:
    if isinstance(constraint, FieldInfo):
        return [bound for inner in constraint.metadata for bound in _bounds(inner)]
    return [
        words.format(f"{value:g}")
        for name, words in _BOUNDS.items()
        if (value := getattr(constraint, name, None)) is not None
    ]


def _first_sentence(model: type[BaseModel]) -> str:
    text = " ".join((model.__doc__ or "").split())
    return text.partition(". ")[0].rstrip(".") + "."
