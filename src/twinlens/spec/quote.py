"""A quote as somebody made it: a price an hour or a token, and what it is said to hold for."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from twinlens.errors import BadInput
from twinlens.spec.frozen import Spec
from twinlens.spec.price import Money
from twinlens.system.document import read_toml

_MOST_BYTES = 2**16
Word = Annotated[str, Field(min_length=1, max_length=80)]


class Quote(Spec):
    """Either `per_device_hour` with `devices` and `tokens_per_s`, or `per_million_output` (and `per_million_input`).

    `counts`: the tokens that `tokens_per_s` counts, at `input_tokens` and `output_tokens` a request. None: not said.
    """

    name: Word
    per_device_hour: Money | None = None
    devices: PositiveInt = 1
    tokens_per_s: Annotated[PositiveFloat, Field(le=1e12)] | None = None
    counts: Literal["output", "total"] | None = None
    input_tokens: PositiveInt | None = None
    output_tokens: PositiveInt | None = None
    utilisation: Annotated[float, Field(gt=0, le=1)] | None = None
    per_million_output: Money | None = None
    per_million_input: Money | None = None
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    model: Word | None = None
    precision: Word | None = None
    context: PositiveInt | None = None
    slo: Word | None = None
    commitment_months: Annotated[int, Field(ge=0, le=1200)] | None = None
    date: Annotated[str, Field(pattern=r"^20\d\d-\d\d-\d\d$")] | None = None

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if (self.per_device_hour is None) == (self.per_million_output is None):
            raise ValueError("give per_device_hour or per_million_output, one of the two")
        return self


def read_quote(path: Path) -> Quote:
    """A quote from a TOML file, money exact. Raises BadInput (TL231) for one that is none."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path.name} is too large for a quote; keep it below 64 kB", code="TL231")
        data = read_toml(path, parse_float=Decimal)
    except (OSError, ValueError) as wrong:
        raise BadInput(f"{path.name!r} cannot be read as TOML ({wrong})", code="TL231") from None
    kept = {key: _number(key, value) for key, value in data.items()}
    try:
        return Quote(**kept)
    except ValidationError as wrong:
        error = wrong.errors(include_url=False)[0]
        where = ".".join(map(str, error["loc"])) or "the quote"
        raise BadInput(f"{path.name}: {where}: {error['msg']}", code="TL231") from None


def _number(key: str, value: Any) -> Any:
    """Money as Decimals, rates and shares as floats."""
    money = key.startswith("per_")
    if isinstance(value, Decimal):
        return value if money else float(value)
    if type(value) is int and (money or key in ("tokens_per_s", "utilisation")):
        return Decimal(value) if money else float(value)
    return value
