"""A typed value from a plain mapping: what it knows is taken, what is of the wrong kind is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")


def typed(kind: type[T], data: Mapping[str, Any]) -> T:
    """The dataclass `kind` from `data`; fields of newer versions are left out.

    Raises ValueError naming the field that is missing or of another kind.
    """
    from pydantic import ValidationError  # of what is read: an `Estimate` alone needs none

    try:
        return _adapter(kind).validate_python(data)  # type: ignore[arg-type, no-any-return]
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place or kind.__name__}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None


@lru_cache(maxsize=32)
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
