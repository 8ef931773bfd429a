"""What every spec value is: frozen, strict and closed, so that a misspelt field is an error and never ignored."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """A value from a spec file. Unknown fields are refused, types are not coerced, nothing can be reassigned."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)
