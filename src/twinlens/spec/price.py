"""Prices as somebody quoted them, with source and date. Money is a Decimal; nothing here is computed."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from twinlens.spec.frozen import Spec

Money = Annotated[Decimal, Field(ge=0, le=1_000_000_000, allow_inf_nan=False)]


class Price(Spec):
    """What one device was quoted at, from `low` to `high`. `date` None: the source gave none.

    `kind`: of one to buy, or of an hour of one in a cloud by its tier: `on-demand-hour`, `spot-hour`, `reserved-hour`
    (with a commitment), and `cloud-hour` where nobody said which. Each quote is an entry of its own.
    `uncertain`: recalled, typed, or without a source.
    """

    device: str
    kind: Literal["purchase", "on-demand-hour", "spot-hour", "reserved-hour", "cloud-hour"]
    low: Money
    high: Money
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    date: Annotated[str, Field(pattern=r"^20\d\d-\d\d(-\d\d)?$")] | None = None
    uncertain: bool = False
    source: str

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        if self.date is not None:
            datetime.date.fromisoformat(self.date if len(self.date) == 10 else f"{self.date}-01")
        return self
