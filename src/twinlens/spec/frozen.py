"""The base of every spec value: frozen, strict and closed, so that a misspelt field is an error and never ignored."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """A value from a spec file. Unknown fields are refused, types are not coerced, nothing can be reassigned."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


def tags(union: Any, field: str) -> tuple[str, ...]:
    """The values of the field that tells the members of a discriminated union apart, in their order."""
    members = get_args(get_args(union)[0])
    return tuple(get_args(member.model_fields[field].annotation)[0] for member in members)
