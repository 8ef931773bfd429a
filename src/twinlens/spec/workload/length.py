"""Lengths of a request's input and output, in tokens."""

from __future__ import annotations

import csv
from collections import Counter
from typing import Annotated, Literal, Self, TextIO

from pydantic import Field, PositiveInt, model_validator

from twinlens.errors import BadInput, nearest
from twinlens.spec.frozen import Spec


class Fixed(Spec):
    """Every request has the same length."""

    kind: Literal["fixed"] = "fixed"
    value: PositiveInt = Field(description="The length of every one.", examples=[256])

    @property
    def max(self) -> int:
        return self.value


class Uniform(Spec):
    """Whole numbers between `min` and `max`, both included."""

    kind: Literal["uniform"]
    min: PositiveInt = Field(description="The least length.", examples=[16])
    max: PositiveInt = Field(description="The greatest length.", examples=[1024])

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class Lognormal(Spec):
    """Lognormal with the given mean (tokens) and coefficient of variation, cut at 1 and `max`."""

    kind: Literal["lognormal"]
    mean: Annotated[float, Field(gt=0)] = Field(description="The mean length.", examples=[256.0])
    cv: Annotated[float, Field(gt=0)] = Field(
        description="The coefficient of variation of the lengths.", examples=[2.0]
    )
    max: PositiveInt = Field(description="The length at which the law is cut.", examples=[1024])


class Empirical(Spec):
    """Drawn from lengths that were seen: `values`, each as often as `counts` says (None: all alike).

    In a spec file `path` and `column` of a CSV may stand in place of the values; loading reads them. Input and output
    are drawn independently of each other: only a trace keeps which belonged together.
    """

    kind: Literal["empirical"]
    values: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = Field(
        description="The lengths that were seen; in a spec file `path` and `column` of a CSV may stand in their place.",
        examples=[(16, 64, 256)],
    )
    counts: tuple[PositiveInt, ...] | None = Field(
        None, description="How often each of the values was seen; without it all are alike.", examples=[(3, 5, 2)]
    )

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if self.counts is not None and len(self.counts) != len(self.values):
            raise ValueError(f"{len(self.counts)} counts for {len(self.values)} values")
        return self

    @property
    def max(self) -> int:
        return max(self.values)


class Free(Spec):
    """As long as the model likes, for answers over HTTP: it may end when it is done, at `most` tokens at the latest.

    Nothing forces its length (no ignore_eos, no min_tokens), so two servers may do different work for one prompt.
    """

    kind: Literal["free"] = "free"
    most: PositiveInt = Field(512, description="The most tokens of an answer that may end when the model likes.")

    @property
    def max(self) -> int:
        return self.most


Length = Annotated[Fixed | Uniform | Lognormal | Empirical, Field(discriminator="kind")]
AnswerLength = Annotated[Fixed | Uniform | Lognormal | Empirical | Free, Field(discriminator="kind")]


# Lengths that were seen, from one column of a CSV.


def lengths_seen(path: str, column: str) -> dict[str, list[int]]:
    """Distinct lengths in tokens, rising, and how often each was there. Raises BadInput (TL213) naming the line."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            counts = _counted(file, path, column)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"cannot read the lengths in {path!r}: {error}", code="TL213") from None
    if not counts:
        raise BadInput(f"{path} has no rows under {column!r}", code="TL213")
    values = sorted(counts)
    return {"values": values, "counts": [counts[value] for value in values]}


def _counted(file: TextIO, path: str, column: str) -> Counter[int]:
    reader = csv.reader(file)
    header = [name.strip() for name in next(reader, [])]
    if column not in header:
        raise BadInput(f"{path}, line 1: no column {column!r}; {nearest(column, header)}", code="TL213")
    place, counts = header.index(column), Counter[int]()
    for row in reader:
        text = row[place].strip() if place < len(row) else ""
        if not row:
            continue
        if not text.isdecimal() or not int(text):
            raise BadInput(f"{path}, line {reader.line_num}: {column} is {text!r}, not a length", code="TL213")
        counts[int(text)] += 1
    return counts
