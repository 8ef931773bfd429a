"""The base of every spec value: frozen, strict and closed, so that a misspelt field is an error and never ignored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from twinlens.errors import BadInput


class Spec(BaseModel):
    """A value from a spec file. Unknown fields are refused, types are not coerced, nothing can be reassigned."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)


def tags(union: Any, field: str) -> tuple[str, ...]:
    """The values of the field that tells the members of a discriminated union apart, in their order."""
    members = get_args(get_args(union)[0])
    return tuple(get_args(member.model_fields[field].annotation)[0] for member in members)


@contextmanager
def described(where: str, thing: str) -> Iterator[None]:
    """Reading of a model's config. Raises BadInput (TL202) where a number of it is missing or impossible."""
    nothing = f"{where} describes no {thing}"
    try:
        yield
    except KeyError as missing:
        raise BadInput(f"{where} has no {missing}; add it", code="TL202") from None
    except ValidationError as wrong:
        first = wrong.errors()[0]
        field = ".".join(map(str, first["loc"])) or "its sizes"
        raise BadInput(f"{nothing}: {field}: {first['msg']}", code="TL202") from None
    except ZeroDivisionError:
        raise BadInput(f"{nothing}: a size that divides another is 0", code="TL202") from None
    except (ValueError, TypeError, AttributeError, OverflowError) as wrong:
        raise BadInput(f"{nothing}: {wrong}", code="TL202") from None
