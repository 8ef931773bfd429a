"""The codec of records: frozen dataclasses become plain data by their fields, and come back by the same fields.

A dataclass needs no method for that. Three things may be said of it beside its fields:

- `field(metadata=OPTIONAL)`: left out where it is None or empty; `field(metadata=UNWRITTEN)`: never written.
- `__json__()`: it is seen another way, as a mapping whose values are encoded in their turn.
- `@reads(function)`: brings what was read, of older versions too, to the fields of today, or refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

OPTIONAL: Mapping[str, str] = {"written": "where there is some"}
UNWRITTEN: Mapping[str, str] = {"written": "never"}
T = TypeVar("T")


@overload
def encode(value: DataclassInstance | Mapping[str, Any]) -> dict[str, Any]: ...
@overload
def encode(value: Any) -> Any: ...
def encode(value: Any) -> Any:
    """`value` as JSON holds it: tuples as lists, sets in order, decimals as text so that no cent is lost.

    A dataclass by its `__json__`, or else by its fields; anything else stays as it is.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: encode(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [encode(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Decimal):
        return str(value)
    if own := getattr(value, "__json__", None):
        return encode(own())
    return by_fields(value) if is_dataclass(value) else value


def by_fields(value: Any, *first: str) -> dict[str, Any]:
    """The fields of a dataclass by name, encoded, whatever its `__json__` says; those named `first` before others."""
    plain: dict[str, Any] = dict.fromkeys(first)
    kind: Any = type(value)
    for name, written in _written(kind):
        each = getattr(value, name)
        is_empty = each is None or (isinstance(each, tuple | Mapping) and not each)
        if written is None or not is_empty:
            plain[name] = encode(each)
    return plain


def decode(kind: type[T], data: Any) -> T:
    """The dataclass `kind` from `data`, the inverse of `encode`; fields of newer versions are left out.

    Raises ValueError naming the field that is missing or of another kind.
    """
    from pydantic import ValidationError  # of what is read: an `Estimate` alone needs none

    try:
        return _adapter(kind).validate_python(data)  # type: ignore[no-any-return, arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{place or kind.__name__}: {said[:1].lower()}{said[1:]}") from None


def reads(before: Callable[[Any], Any]) -> Callable[[type[T]], type[T]]:
    """A dataclass that is read from `before(data)`. `before` may raise ValueError."""

    def schema_of(_: type, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        schema = handler(source)
        own = handler.resolve_ref_schema(schema)  # the one schema of this class, wherever it is used
        if own["schema"]["type"] == "dataclass-args":
            own["schema"] = core_schema.no_info_before_validator_function(before, own["schema"])
        return schema

    def with_schema(kind: type[T]) -> type[T]:
        kind.__get_pydantic_core_schema__ = classmethod(schema_of)  # type: ignore[attr-defined]
        return kind

    return with_schema


@lru_cache(maxsize=256)
def _written(kind: Any) -> tuple[tuple[str, str | None], ...]:
    told = ((each.name, each.metadata.get("written")) for each in fields(kind))
    return tuple((name, written) for name, written in told if written != UNWRITTEN["written"])


@lru_cache(maxsize=64)
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
