"""How long a request's input and output are, in tokens."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from twinlens.spec.frozen import Spec


class Fixed(Spec):
    """Every request has the same length."""

    kind: Literal["fixed"] = "fixed"
    value: PositiveInt

    @property
    def max(self) -> int:
        return self.value


class Uniform(Spec):
    """Whole numbers between `min` and `max`, both included."""

    kind: Literal["uniform"]
    min: PositiveInt
    max: PositiveInt

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class Lognormal(Spec):
    """Lognormal with the given mean (tokens) and coefficient of variation, cut at 1 and `max`."""

    kind: Literal["lognormal"]
    mean: Annotated[float, Field(gt=0)]
    cv: Annotated[float, Field(gt=0)]
    max: PositiveInt


Length = Annotated[Fixed | Uniform | Lognormal, Field(discriminator="kind")]
